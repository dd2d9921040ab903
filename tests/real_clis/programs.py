"""The real agent programs in real panes: each with a home of its own, a made-up key and the made-up model.

Nothing of the machine's user reaches them: the environment is emptied (``env -i``), HOME is a new directory, and the
only address they are given is the model's on loopback. They come to their input line without a question.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.real_clis.install import node
from tests.real_clis.releases import RELEASES, Release
from tests.strays import MARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.real_clis.model import Model

PATIENCE_S: Final = 60.0
KEY: Final = "made-up-and-no-key-at-all-000000000000"
#: Known only inside the pane: handed through the emptied environment.
_HANDED_ON: Final = ("TMUX", "TMUX_PANE", "ACKD_AGENT", "ACKD_ROOT", "ACKD_LIFE", MARK)


def why_missing(name: str) -> str | None:
    """Why the program cannot be run here; None if it can."""
    release = RELEASES[name]
    if shutil.which("tmux") is None:
        return "tmux is not installed"
    if not release.is_installed:
        return f"{release.label} is not installed: make clis"
    if release.by_node and node() is None:
        return "no Node that is new enough: make clis"
    return None


@dataclass
class Program:
    """One of them, set up in ``place``: a home and a directory to work in. What it would ask at its first start is answered
    beforehand, but for what ``asks`` names; ``settings`` are laid over what it is configured with."""

    name: str
    place: Path
    model: Model
    asks: frozenset[str] = frozenset()
    settings: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def release(self) -> Release:
        return RELEASES[self.name]

    @property
    def home(self) -> Path:
        return self.place / f"home-{self.name}"

    @property
    def work(self) -> Path:
        return self.place / "work"

    def prepare(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(parents=True, exist_ok=True)
        # Codex runs a login shell, for which the machine's profile sets PATH anew.
        (self.home / ".bash_profile").write_text(f"export PATH={shlex.quote(self._path())}\n")
        getattr(self, f"_prepare_{self.name}")()

    def command(self, *arguments: str) -> str:
        """For a shell in a pane."""
        variables = {
            "HOME": str(self.home),
            "PATH": self._path(),
            "TERM": "screen-256color",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            **self._variables(),
            **self.variables,
        }
        words = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
        handed = [f'{name}="${name}"' for name in _HANDED_ON]
        return " ".join(["exec env -i", *words, *handed, shlex.join([*self._program(), *arguments])])

    def _path(self) -> str:
        return f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"

    def _program(self) -> list[str]:
        path = str(self.release.path)
        return [str(node()), path] if self.release.by_node else [path]

    def _variables(self) -> dict[str, str]:
        match self.name:
            case "claude":
                off = "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC DISABLE_TELEMETRY DISABLE_AUTOUPDATER DISABLE_ERROR_REPORTING"
                quiet = dict.fromkeys(off.split(), "1")
                return {"ANTHROPIC_BASE_URL": self.model.url, "ANTHROPIC_API_KEY": KEY, **quiet}
            case "codex":
                return {"MADE_UP_KEY": KEY}
            case "gemini":
                here = {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": self.model.url}
                return {**here, "GEMINI_CLI_NO_RELAUNCH": "true"}
            case _:
                return dict.fromkeys(("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH"), "1")

    # --- what each is configured with
    def _write(self, path: str, content: Mapping[str, Any]) -> None:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=1))

    def _prepare_claude(self) -> None:
        allowed = {"permissions": {"allow": ["Bash(ackd:*)", "Bash(cat:*)"], "defaultMode": "default"}, "theme": "dark"}
        self._write(".claude/settings.json", {**allowed, **self.settings})
        version = self.release.version
        known: dict[str, Any] = {
            "hasCompletedOnboarding": True,
            "lastOnboardingVersion": version,
            "lastReleaseNotesSeen": version,
            "theme": "dark",
            "numStartups": 5,
            "hasSeenAutoDefaultNudge": "auto mode" not in self.asks,
        }
        if "key" not in self.asks:
            known["customApiKeyResponses"] = {"approved": [KEY[-20:]], "rejected": []}
        if "trust" not in self.asks:
            trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True, "allowedTools": []}
            known["projects"] = {str(self.work): trusted}
        self._write(".claude.json", known)

    def _prepare_codex(self) -> None:
        provider = {
            "name": "made-up",
            "base_url": f"{self.model.url}/v1",
            "env_key": "MADE_UP_KEY",
            "wire_api": "responses",
            "request_max_retries": 1,
            "stream_max_retries": 1,
        }
        config: dict[str, Any] = {
            "model": "made-up",
            "model_provider": "made-up",
            "approval_policy": "on-request",
            "sandbox_mode": "danger-full-access",
            "check_for_update_on_startup": False,
            "features": {"daemon_auto_start": False},
            "analytics": {"enabled": False},
            "model_providers": {"made-up": provider},
            "tui": {"screen_reader_detection_done": True},
        }
        if "trust" in self.asks:
            del config["approval_policy"], config["sandbox_mode"]  # asked only without these, and in a repository
            (self.work / ".git").mkdir(exist_ok=True)
            (self.work / ".git/HEAD").write_text("ref: refs/heads/main\n")
        else:
            config["projects"] = {str(self.work): {"trust_level": "trusted"}}
        path = self.home / ".codex/config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in _laid(config, self.settings).items())
        )

    def _prepare_gemini(self) -> None:
        settings: dict[str, Any] = {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": True}},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "ui": {"footer": {"hideContextPercentage": False}},
        }
        self._write(".gemini/settings.json", _laid(settings, self.settings))
        policies = self.home / ".gemini/policies"
        policies.mkdir(exist_ok=True)
        rule = {"toolName": "run_shell_command", "commandPrefix": ["ackd", "cat"], "decision": "allow", "priority": 100}
        (policies / "ackd.toml").write_text("[[rule]]\n" + "".join(f"{key} = {toml(of)}\n" for key, of in rule.items()))
        if "trust" not in self.asks:
            self._write(".gemini/trustedFolders.json", {str(self.work): "TRUST_FOLDER"})

    def _prepare_opencode(self) -> None:
        made_up = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Made up",
            "options": {"baseURL": f"{self.model.url}/v1", "apiKey": KEY},
            "models": {"made-up": {"name": "Made up", "tool_call": True, "limit": {"context": 100000, "output": 4000}}},
        }
        config: dict[str, Any] = {
            "autoupdate": False,
            "share": "disabled",
            "model": "made-up/made-up",
            "small_model": "made-up/made-up",
            "provider": {"made-up": made_up},
            "permission": {"external_directory": "allow", "bash": {"*": "ask", "ackd *": "allow", "cat *": "allow"}},
        }
        self._write(".config/opencode/opencode.json", _laid(config, self.settings))


def _laid(under: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _laid(merged[key], value) if both else value
    return merged


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(of)}" for key, of in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


@dataclass
class Terminal:
    """A tmux server of its own."""

    socket: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, check: bool = True) -> str:
        command = ["tmux", "-u", "-f", "/dev/null", "-S", str(self.socket), *words]
        env = self.environment or None
        return subprocess.run(command, check=check, capture_output=True, text=True, env=env, timeout=60).stdout

    def open(self, command: str, cwd: Path, *, title: str = "", width: int = 120, height: int = 40) -> Pane:
        size = ("-x", str(width), "-y", str(height))
        made = self.run("new-session", "-d", "-P", "-F", "#{pane_id}", *size, "-c", str(cwd), command)
        pane = Pane(self, made.strip())
        if title:
            self.run("select-pane", "-t", pane.pane_id, "-T", title)
        return pane


@dataclass
class Pane:
    terminal: Terminal
    pane_id: str

    def screen(self) -> str:
        return self.terminal.run("capture-pane", "-p", "-t", self.pane_id, check=False)

    def type(self, text: str) -> None:
        self.terminal.run("send-keys", "-l", "-t", self.pane_id, text)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.terminal.run("send-keys", "-t", self.pane_id, key)

    def resize(self, width: int, height: int) -> None:
        self.terminal.run("resize-window", "-t", self.pane_id, "-x", str(width), "-y", str(height))

    def close(self) -> None:
        self.terminal.run("kill-pane", "-t", self.pane_id, check=False)

    def until(self, pattern: str, patience_s: float = PATIENCE_S) -> str:
        """The screen, once it shows ``pattern``."""
        wanted, end = re.compile(pattern, re.MULTILINE), time.monotonic() + patience_s
        while not wanted.search(screen := self.screen()):
            if time.monotonic() > end:
                raise AssertionError(f"{pattern!r} was not shown within {patience_s} s, but:\n{screen}")
            time.sleep(0.1)
        return screen

    def settled(self, quiet_s: float = 0.8, patience_s: float = PATIENCE_S) -> str:
        """The screen, once it has not changed for a while."""
        end, screen, since = time.monotonic() + patience_s, self.screen(), time.monotonic()
        while time.monotonic() - since < quiet_s and time.monotonic() < end:
            time.sleep(0.1)
            if (now := self.screen()) != screen:
                screen, since = now, time.monotonic()
        return screen


@contextlib.contextmanager
def terminal(environment: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """On a socket in a directory of its own: paths of sockets are short, those of tests are not."""
    directory = Path(tempfile.mkdtemp(prefix="ackd-tmux-"))
    found = Terminal(directory / "s", {**os.environ, **(environment or {})})
    found.run("start-server", ";", "set-option", "-s", "exit-empty", "off")
    try:
        yield found
    finally:
        found.run("kill-server", check=False)
        shutil.rmtree(directory, ignore_errors=True)
