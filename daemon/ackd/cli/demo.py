"""``ackd demo``: a small team at work in an empty temporary directory, shown as it happens.

Nothing is staged: the daemon is ``ackd run``, the agents are programs that it starts, as commands, as processes and in
a pane of tmux, and what is told about them (demo_story.py) is read from the session log. Exit 0 only if every message
ended where it should. Without tmux the team is smaller, and that is said. Its tmux server is one of its own, on a
socket below its directory, and is ended with it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from ackd.cli.command_line import argument, command
from ackd.cli.errors import NO, Ended
from ackd.cli.output import echo, print_json
from ackd.core.message_facts import (
    message_completed,
    message_dead,
    message_queued,
    message_told,
    message_withdrawn,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ackd.cli.demo_story import DemoStory
    from ackd.storage.session_log import Line

#: So long a sentence stands alone on a terminal, before the next one is said.
PAUSE_S: Final = 1.6
PATIENCE_S: Final = 60.0
PROGRAMS: Final = (
    "leader.sh",
    "coordinator.sh",
    "worker.sh",
    "report.sh",
    "builder.py",
    "translator.py",
    "reviewer.py",
)
#: The kernel takes no longer path of a socket than 107 bytes.
_SOCKET_BYTES: Final = 107
_SHOWN: Final = frozenset(one.type for one in (message_told, message_completed, message_dead, message_withdrawn))
#: Which steps the workers that are kept alive must have done, each once.
STEPS: Final = {
    "builder": ["compile", "test", "package", "report"],
    "translator": ["german", "french", "japanese", "spanish", "report"],
}
Ends: TypeAlias = Counter[tuple[str, str, str]]


def expected(*, pane: bool) -> Ends:
    """(message type, recipient, how it ends) → how many."""
    finish = ["ignitian_1", "ignitian_2", "builder", "translator", *(["reviewer"] if pane else [])]
    return Counter(
        {
            ("user_goal", "leader", "completed"): 1,
            ("strategy_response", "user", "told"): 1,
            ("task_list", "coordinator", "completed"): 1,
            **{("task_assignment", worker, "completed"): 1 for worker in finish},
            ("task_assignment", "ignitian_3", "dead"): 1,
            ("task_completed", "coordinator", "completed"): len(finish),
            ("dead_letter", "coordinator", "completed"): 1,
            ("escalation", "leader", "completed"): 1,
            ("progress_update", "leader", "completed"): len(finish) + 1,
            ("message", "user", "told"): 2,
        }
    )


@command
@argument("--fast", action="store_true", help="Do not pause after each sentence on a terminal.")
@argument("--quiet", "-q", action="store_true", help="Print the sentences, and leave out the lines of the log.")
def demo(*, fast: bool, quiet: bool, as_json: bool) -> None:
    """See ackd at work: a team of eight, of which one never succeeds, one crashes, one hangs and one forgets.

    Sentences say what happens and why it matters; below each are the lines of the session log that it is about. With
    --json all of that goes to stderr, and at the end how the messages ended to stdout.

    Exit codes: 0 every message ended where it should, 1 one did not.
    """
    stage = DemoStage.at(Path(tempfile.mkdtemp(prefix="ackd-demo-")))
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        ends = _play(stage, fast=fast, quiet=quiet)
        well = ends == expected(pane=stage.pane) and _steps(stage.place) == STEPS
    if as_json:
        print_json(_as_data(stage, ends, well=well))
    if not well:
        raise Ended(NO)


@dataclass(frozen=True, slots=True)
class DemoStage:
    """The directory of the demo. ``no_pane``: why no agent lives in a terminal; empty if one does."""

    place: Path
    no_pane: str

    @classmethod
    def at(cls, place: Path) -> DemoStage:
        if shutil.which("tmux") is None:
            return cls(place, "there is no tmux on this machine")
        if len(os.fsencode(place / "tmux")) > _SOCKET_BYTES:
            return cls(place, f"{place} is too long for a socket of tmux")
        return cls(place, "")

    @property
    def pane(self) -> bool:
        return not self.no_pane

    @property
    def socket(self) -> Path:
        return self.place / "tmux"


def _play(stage: DemoStage, *, fast: bool, quiet: bool) -> Ends:
    place, wanted = stage.place, expected(pane=stage.pane)
    environment = _lay_out(stage)
    _introduce(stage)
    story = _story(quiet=quiet)
    daemon = _start(place, environment)
    try:
        _ackd(place, environment, "send", "leader", "--type", "user_goal", "--priority", "high", "--body", _GOAL)
        pause_s = PAUSE_S if sys.stdout.isatty() and not fast else 0.0
        ends = _watch(place / ".ackd" / "logs", daemon, wanted, story, pause_s)
        if not quiet:
            _show(place, environment, "`ackd status` says how everybody is:", "status")
    finally:
        _stop(daemon)
        _end_terminals(stage)
    _epilogue(stage, environment, story, quiet=quiet)
    if ends == wanted:
        _say("\nEvery message ended where it should.")
    else:
        _say(f"\nNot as it should be. Missing: {_words(wanted - ends)}. Unexpected: {_words(ends - wanted)}.")
    return ends


def _story(*, quiet: bool) -> DemoStory:
    from ackd.cli.demo_story import DemoStory
    from ackd.facts import colour_wanted

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    names = [to for _, to, _ in expected(pane=True)]
    return DemoStory(agents=names, colour=colour_wanted(sys.stdout), width=width, quiet=quiet)


def _introduce(stage: DemoStage) -> None:
    story = _story(quiet=False)
    _say(
        story.sentence(
            "ackd delivers the messages that agents on one machine send each other, and makes sure that somebody "
            "notices when one is not answered. Here it looks after a small team for about twenty seconds. The agents "
            "are little programs in place of language models. Everything else is real, and most of them will fail."
        )
    )
    _say(f"\nThe team, in the new directory {stage.place}:")
    for who, what in (
        ("leader, coordinator", "plan the work and hand it out"),
        ("ignitian_1, _2, _3", "work; _2 fails twice, _3 always fails"),
        ("builder", "works, and crashes in the middle of it"),
        ("translator", "works, and its context fills up"),
        ("reviewer", f"left out: {stage.no_pane}" if stage.no_pane else "lives in a terminal (tmux), and hangs"),
    ):
        _say(f"  {who:20} {what}")


def _as_data(stage: DemoStage, ends: Ends, *, well: bool) -> dict[str, object]:
    rows = [{"type": kind, "to": to, "end": end, "count": n} for (kind, to, end), n in sorted(ends.items())]
    return {"place": str(stage.place), "pane": stage.pane, "as_expected": well, "ends": rows}


_GOAL: Final = 'goal: "Publish the release notes"\ncontext: "Version 1.0 is out"\n'


def _say(text: str) -> None:
    echo(text)
    sys.stdout.flush()


def _lay_out(stage: DemoStage) -> dict[str, str]:
    """Write the programs and the config, and put this ``ackd`` and this ``python3`` on the PATH."""
    place, here = stage.place, resources.files("ackd.cli.demo_team")
    for name in PROGRAMS:
        (place / name).write_text(here.joinpath(name).read_text())
        (place / name).chmod(0o700)
    config = here.joinpath("team.toml").read_text()
    if stage.pane:
        config += here.joinpath("pane.toml").read_text().replace("@SOCKET@", str(stage.socket))
    (place / "ackd.toml").write_text(config)
    shims = place / "bin"
    shims.mkdir()
    for name, words in (("ackd", "-m ackd "), ("python3", "")):
        (shims / name).write_text(f"#!/bin/sh\nexec '{sys.executable}' {words}\"$@\"\n")
        (shims / name).chmod(0o700)
    path = f"{shims}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {key: value for key, value in os.environ.items() if not key.startswith("ACKD_")} | {"PATH": path}


def _start(place: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start the daemon. What it would print is read from its log instead; its errors are shown as they are."""
    command = [sys.executable, "-m", "ackd", "run", "--quiet"]
    return subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.DEVNULL)


def _ackd(place: Path, environment: dict[str, str], *words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "ackd", *words], cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL
    )


def _watch(logs: Path, daemon: subprocess.Popen[bytes], wanted: Ends, story: DemoStory, pause_s: float) -> Ends:
    """Tell the story until all messages ended as expected, the daemon is gone, or the time is up."""
    from ackd.storage.session_log import iter_logs

    deadline = time.monotonic() + PATIENCE_S
    told = 0
    while True:
        over = time.monotonic() > deadline or daemon.poll() is not None
        lines = list(iter_logs(logs)) if logs.is_dir() else []
        ends = _ends(lines)
        _tell(lines[told:], story, pause_s)
        told = len(lines)
        if ends == wanted or over:
            return ends
        time.sleep(0.2)


def _tell(lines: Iterable[Line], story: DemoStory, pause_s: float) -> None:
    for line in lines:
        for text, is_sentence in story.told(line):
            _say(text)
            if is_sentence:
                time.sleep(pause_s)


def _ends(lines: Iterable[Line]) -> Ends:
    kinds: dict[tuple[str, str], str] = {}
    ends: dict[tuple[str, str], str] = {}
    for line in lines:
        ident = (str(line.data.get("message_id")), str(line.data.get("agent")))
        if line.type == message_queued.type:
            kinds[ident] = str(line.data["message_type"])
        elif line.type in _SHOWN:
            ends[ident] = line.type.removeprefix("message_")
    return Counter((kind, ident[1], ends.get(ident, "queued")) for ident, kind in kinds.items())


def _stop(daemon: subprocess.Popen[bytes]) -> None:
    daemon.send_signal(signal.SIGTERM)
    try:
        daemon.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _end_terminals(stage: DemoStage) -> None:
    """End the demo's tmux server, by its socket: no other server is touched."""
    if stage.pane:
        subprocess.run(["tmux", "-S", str(stage.socket), "kill-server"], capture_output=True, check=False)


def _show(place: Path, environment: dict[str, str], title: str, *words: str) -> None:
    _say(f"\n{title}\n")
    command = [sys.executable, "-m", "ackd", *words]
    subprocess.run(command, cwd=place, env=environment, stdout=sys.stdout, check=False)
    _say("")


def _epilogue(stage: DemoStage, environment: dict[str, str], story: DemoStory, *, quiet: bool) -> None:
    place = stage.place
    if not quiet:
        _show(place, environment, "`ackd inbox user` lists what you were told:", "inbox", "user")
        _show(place, environment, "`ackd dead list` lists what could not be delivered, and why:", "dead", "list")
    for worker, steps in _steps(place).items():
        well = "each once, in order" if steps == STEPS[worker] else f"not as planned: {', '.join(STEPS[worker])}"
        _say(story.sentence(f"The {worker}'s steps: {', '.join(steps) or 'none'} ({well})."))
    _say(story.sentence("Everything is still there to look at; remove the directory when you have seen enough:"))
    _say(f"  cd {place}")
    dead = next(iter(sorted((place / ".ackd/queue/dead_letter").glob("*.mime"))), None)
    ackd = "ackd" if shutil.which("ackd") else "bin/ackd"  # laid out there for the team's programs
    for line, why in (
        ("tail -n 500", "the whole story"),
        *([(f"explain {_id_of(dead)}", "of one message")] if dead is not None else []),
        ("inbox user", "what you were told"),
        ("dead list", "what failed, and why"),
        ("dead requeue --all", "`run` tries it again"),
    ):
        _say(f"  {ackd} {line:34} # {why}")


def _id_of(message: Path) -> str:
    """Return what is needed of the message's id to name it in a command."""
    found = re.search(r"^Message-ID: <([^@>]+)", message.read_text(errors="replace"), re.MULTILINE)
    return found[1] if found else str(message)


def _steps(place: Path) -> dict[str, list[str]]:
    """The steps that the workers wrote down when they were done."""

    def done(worker: str) -> list[str]:
        notes = place / f"{worker}.steps"
        return [line.split()[0] for line in notes.read_text().splitlines()] if notes.exists() else []

    return {worker: done(worker) for worker in STEPS}


def _words(counts: Ends) -> str:
    return ", ".join(f"{n} {kind} to {to} {end}" for (kind, to, end), n in sorted(counts.items())) or "none"
