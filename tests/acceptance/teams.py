"""A real team for acceptance tests: a directory, a config, and the real daemon as a process.

``Team`` writes the config, starts ``ackd run``, waits for what the session log says, and ends only what it started.
Nothing here sleeps for a fixed time: every wait is for a fact, with a deadline.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackd.facts.table import FACTS
from ackd.storage.session_log import age_order, session_files
from ackd.storage.session_log.stored import open_log, state
from tests import warm
from tests.strays import MARK, end_strays
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.warm import WarmProcess

#: Waits short enough for tests; everything else is the default.
QUICK = """
[watch]
settle_s = 0.1
reconcile_interval_s = 1

[daemon]
drain_timeout_s = 5
stop_timeout_s = 1
"""


def _written_at(log: Path) -> int:
    now = state(log)
    return now.mtime_ns if now is not None else 0


def undeclared(line: dict[str, Any]) -> str:
    """What of a daemon's line is not declared (core.fact): its type, a field that it has, one that it lacks."""
    if line.get("writer") != "daemon":
        return ""
    row = FACTS.get(line["type"])
    if row is None:
        return f"type {line['type']}"
    fields = inspect.signature(row.declared).parameters
    known = {"from" if name == "from_" else name: one.default for name, one in fields.items()}
    needed = {name for name, default in known.items() if default is inspect.Parameter.empty}
    found = set(line["data"])
    return " ".join(sorted((found - set(known)) | (needed - found)))


class Team:
    """One root and at most one daemon on it."""

    def __init__(self, place: Path, agents: str = "", *, top: str = "", delivery: str = "", quick: str = QUICK) -> None:
        self.place = place
        self.root = place / ".ackd"
        place.mkdir(parents=True, exist_ok=True)
        backoff = "" if "backoff_base_s" in delivery else "backoff_base_s = 0.05\nbackoff_cap_s = 0.2\n"
        self._common = f"{top}\n[delivery]\n{backoff}{delivery}\n{quick}\n"
        self.write_config(agents)
        self.process: subprocess.Popen[bytes] | WarmProcess | None = None
        self._posted = 0
        self._read: dict[Path, tuple[int, list[dict[str, Any]]]] = {}
        self.extra_env: dict[str, str] = {}

    def write_config(self, agents: str, common: str | None = None) -> None:
        """Replace ackd.toml, as an editor does: the agents, below what the team was made with."""
        temp = self.place / ".ackd.toml.tmp"
        temp.write_text(f"{self._common if common is None else common}{agents}")
        temp.rename(self.place / "ackd.toml")

    # --- processes --------------------------------------------------------------------------------------------------
    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ACKD_")}
        bin_dir = str(Path(sys.executable).parent)
        path = f"{bin_dir}{os.pathsep}{kept.get('PATH', os.defpath)}"
        return kept | {"PATH": path, MARK: str(self.place)} | self.extra_env

    def start(self, *words: str, ready: bool = True, env: dict[str, str] | None = None, **popen: Any) -> None:
        before = len(self.facts("session_start"))
        environment = self.environment | (env or {})
        with (self.place / "daemon.out").open("ab") as out:
            if not popen and warm.serves(environment):
                self.process = warm.start(["run", *words], cwd=self.place, env=environment, out=out.fileno())
            else:
                command = [sys.executable, "-m", "ackd", "run", *words]
                self.process = subprocess.Popen(
                    command, cwd=self.place, env=environment, stdout=out, stderr=out, **popen
                )
        if ready:
            self.until(lambda: len(self.facts("session_start")) > before and self.status_pid() == self.pid)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def status_pid(self) -> int | None:
        try:
            found = json.loads((self.root / "run/status.json").read_text())
        except (OSError, ValueError):
            return None
        pid = found["daemon"]["pid"]
        return pid if isinstance(pid, int) else None

    def kill(self) -> None:
        """kill -9, as a crash."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(by)
        return self.ended()

    def ended(self) -> int:
        """Wait for its end; its exit code."""
        assert self.process is not None
        code = self.process.wait(PATIENCE_S)
        self.process = None
        return code

    def ackd(
        self, *words: str, stdin: str | None = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = self.environment | (env or {})
        if warm.serves(environment):
            return warm.run([*words], cwd=self.place, env=environment, stdin=stdin, timeout=60)
        return subprocess.run(
            [sys.executable, "-m", "ackd", *words],
            cwd=self.place,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=60,
            check=False,
        )

    def send(self, to: str, *words: str, body: str = "hello") -> str:
        """The message's id. The command must succeed."""
        done = self.ackd("send", to, "--body", body, "--json", *words)
        assert done.returncode == 0, done.stderr
        message_id = json.loads(done.stdout)["message_id"]
        assert isinstance(message_id, str)
        return message_id

    def drop(self, box: str, data: bytes, name: str, folder: str = "") -> Path:
        """As a foreign writer does it: under a temporary name, then renamed in."""
        directory = self.root / "queue" / box / folder
        directory.mkdir(parents=True, exist_ok=True)
        temp = directory / f".{name}.tmp"
        temp.write_bytes(data)
        return temp.rename(directory / name)

    def post(self, to: str, **words: str) -> str:
        """A message as another agent writes it, without the cost of a command: its id. ``words`` as for ``mime``."""
        self._posted += 1
        message_id = words.setdefault("message_id", f"1770263544.{self._posted}.abcdef@ignite.local")
        kind = words.get("kind", "message")
        self.drop(to, mime(to=to, **words), f"{kind}_{1770263544000000 + self._posted:016}.mime")
        return message_id

    def script(self, name: str, text: str) -> Path:
        """A program for an exec agent: ``command = ["./NAME"]``."""
        path = self.place / name
        temp = path.with_name(f".{name}.tmp")
        temp.write_text(f"#!/bin/sh\n{text}\n")
        temp.chmod(0o700)
        return temp.rename(path)

    # --- what happened ------------------------------------------------------------------------------------------------
    def lines(self) -> list[dict[str, Any]]:
        """The logs of all sessions so far. Each byte is read once: a test asks fifty times a second."""
        found: list[dict[str, Any]] = []
        for path in sorted(session_files(self.root / "logs"), key=lambda p: (_written_at(p), age_order(p.name))):
            offset, known = self._read.setdefault(path, (0, []))
            with open_log(path) as log:
                new = log.read(offset, log.state().size) if log is not None else b""
            whole = new[: new.rfind(b"\n") + 1]  # a line that a kill tore has no end
            for raw in whole.splitlines():
                with contextlib.suppress(ValueError):
                    known.append(json.loads(raw))
                    assert undeclared(known[-1]) == "", "docs/session-log.md is not true of this line"
            self._read[path] = (offset + len(whole), known)
            found += known
        return found

    def facts(self, *types: str, message: str | None = None, agent: str | None = None) -> list[dict[str, Any]]:
        return [
            line["data"]
            for line in self.lines()
            if (not types or line["type"] in types)
            and (message is None or line["data"].get("message_id") == message)
            and (agent is None or line["data"].get("agent") == agent)
        ]

    def types_of(self, message: str) -> list[str]:
        return [line["type"] for line in self.lines() if line["data"].get("message_id") == message]

    def until(self, holds: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
        deadline = time.monotonic() + patience_s
        while not (answer := holds()):
            if self.process is not None and self.process.poll() is not None:
                raise AssertionError(f"the daemon ended: {self.output()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {patience_s} s; log:\n{self.story()}\n{self.output()[-2000:]}")
            time.sleep(0.02)
        return answer

    def written(self, path: Path) -> str:
        """Wait until a program has written something into the file, which exists a moment before, and return it."""
        text: str = self.until(lambda: path.exists() and path.read_text().strip())
        return text

    def fact(self, *types: str, message: str | None = None, agent: str | None = None) -> dict[str, Any]:
        """Wait for a fact, and return its data."""
        found: list[dict[str, Any]] = self.until(lambda: self.facts(*types, message=message, agent=agent))
        return found[0]

    def story(self) -> str:
        return "\n".join(f"{line['type']} {line['data']}" for line in self.lines()[-60:])

    def output(self) -> str:
        return (self.place / "daemon.out").read_text(errors="replace") if (self.place / "daemon.out").exists() else ""

    def status(self) -> dict[str, Any]:
        """What the daemon's page says, once it knows what its log said when we asked: it is half a second behind."""
        path = self.root / "run/status.json"
        told = json.loads(path.read_text())["daemon"]["log"]
        reached = (self.root / "logs" / told["file"]).stat().st_size

        def page() -> dict[str, Any] | None:
            found: dict[str, Any] = json.loads(path.read_text())
            log = found["daemon"]["log"]
            return found if log["file"] != told["file"] or log["bytes"] >= reached else None

        found: dict[str, Any] = self.until(page)
        return found

    def header(self, path: Path, name: str) -> str | None:
        """Of a message file: the header's value."""
        for line in path.read_text().partition("\n\n")[0].splitlines():
            key, _, value = line.partition(": ")
            if key == name:
                return value
        return None

    def files(self, folder: str) -> list[str]:
        """Names, hidden ones too; but what our daemon writes under a temporary name just now, as the headers of what it
        told, is waited for. What somebody else left is there, and what ours never removes fails."""
        directory = self.root / folder
        names: list[str] = []

        def at_rest() -> bool:
            names[:] = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
            ours = "" if self.process is None else f".ackd-{self.pid}-"
            return not any(ours and name.startswith(ours) for name in names)

        self.until(at_rest)
        return names


@contextlib.contextmanager
def running(team: Team) -> Iterator[Team]:
    """The daemon runs inside, and ends with it. What a daemon that was killed left running stays, to be adopted by the
    next; at the end of the test that is ended too (conftest).
    """
    try:
        team.start()
        yield team
    finally:
        if team.process is not None:
            team.process.terminate()
            try:
                team.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                end_strays(team.place)
                team.process.kill()
                team.process.wait()


def mime(
    *,
    sender: str = "user",
    to: str = "leader",
    kind: str = "message",
    message_id: str = "1770263544.12345.abcdef@ignite.local",
    body: str = 'content: "hello"\n',
    priority: str = "normal",
    extra: str = "",
) -> bytes:
    """A message as an IGNITE agent writes it."""
    return (
        "MIME-Version: 1.0\n"
        f"Message-ID: <{message_id}>\n"
        f"From: {sender}\n"
        f"To: {to}\n"
        "Date: Mon, 16 Nov 2026 12:00:00 +0000\n"
        f"X-IGNITE-Type: {kind}\n"
        f"X-IGNITE-Priority: {priority}\n"
        f"{extra}"
        "Content-Type: text/x-yaml; charset=utf-8\n"
        "Content-Transfer-Encoding: 8bit\n"
        f"\n{body}"
    ).encode()
