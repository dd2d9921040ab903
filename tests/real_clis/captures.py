"""Makes the captures that the profiles are made from and tested with: ``python -m tests.real_clis.captures [NAME…]``.

Drives each real program, in a pane and against a made-up model, into each state that could be brought about without an
account, and writes what the pane shows to ``tests/endpoints/tmux/screen/captures/PROGRAM-VERSION/STATE.txt``. The
directory's name is the version. Every shot waits for what it is to show; a program that shows something else ends the
run with its screen. What stands in a capture and changes from run to run (directories, times) is of no consequence to a profile.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.real_clis.model import Answer, Asked, Brain, Failure, Model, plain
from tests.real_clis.programs import PATIENCE_S, Pane, Program, Terminal, terminal, why_missing
from tests.real_clis.releases import RELEASES, REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CAPTURES: Final = REPOSITORY / "tests/endpoints/tmux/screen/captures"
LINE: Final = (
    "ackd: message 1763254800.4242.a1b2c3@ignite.local from leader, type task_assignment, waits: read "
    "/home/me/project/.ackd/queue/worker/processed/task_assignment_1763254800123456.mime then run: "
    "ackd ack 1763254800.4242.a1b2c3@ignite.local and when finished: ackd done 1763254800.4242.a1b2c3@ignite.local"
)
SHORT_LINE: Final = "ackd: mail from leader (task_assignment). Run: ackd read 4f2a91c0"
SIZES: Final = ((40, 12), (60, 15), (80, 24))
HELD: Final = "think about it"


@dataclass
class Camera:
    """Of one program: opens its panes, poses them, and keeps what they show."""

    name: str
    model: Model
    terminal: Terminal
    place: Path
    taken: list[str] = field(default_factory=list)
    _homes: int = 0

    @contextlib.contextmanager
    def pane(
        self,
        *arguments: str,
        asks: str = "",
        size: tuple[int, int] = (120, 40),
        settings: dict[str, Any] | None = None,
        variables: dict[str, str] | None = None,
    ) -> Iterator[Subject]:
        self._homes += 1
        program = Program(
            self.name,
            self.place / f"{self._homes}",
            self.model,
            asks=frozenset(filter(None, [asks])),
            settings=settings or {},
            variables=variables or {},
        )
        program.prepare()
        opened = self.terminal.open(program.command(*arguments), program.work, width=size[0], height=size[1])
        try:
            yield Subject(self, opened, program)
        finally:
            opened.close()


@dataclass
class Subject:
    camera: Camera
    pane: Pane
    program: Program

    def shot(self, name: str, shows: str = "", *, at_once: bool = False) -> None:
        """Once it shows that, and no longer changes; ``at_once``: what passes by itself."""
        screen = self.pane.until(shows) if shows else ""
        if not at_once:
            screen = self.pane.settled(quiet_s=0.6, patience_s=4)
        directory = CAPTURES / RELEASES[self.camera.name].label
        directory.mkdir(parents=True, exist_ok=True)
        rows = [row.rstrip(" ") for row in screen.splitlines()]
        (directory / f"{name}.txt").write_text("\n".join(rows).rstrip("\n") + "\n")
        self.camera.taken.append(name)
        print(f"{RELEASES[self.camera.name].label}/{name}", flush=True)

    def until(self, shows: str) -> None:
        self.pane.until(shows)

    def type(self, text: str) -> None:
        self.pane.type(text)
        self.pane.settled(quiet_s=0.4, patience_s=5)

    def enter(self, text: str = "") -> None:
        if text:
            self.type(text)
        self.pane.press("Enter")

    def submit(self, text: str = "") -> None:
        """Entered, and answered: what it shows of that may be out of sight."""
        model = self.camera.model
        before = len(model.asked)
        self.enter(text)
        end = time.monotonic() + PATIENCE_S
        while len(model.asked) == before:
            if time.monotonic() > end:
                raise AssertionError(f"it asked its model nothing, but shows:\n{self.pane.screen()}")
            time.sleep(0.05)
        self.pane.settled(quiet_s=1.0, patience_s=6)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.pane.press(key)
            self.pane.settled(quiet_s=0.4, patience_s=5)

    def asks(self, answer: Answer, words: str = "please do it", then: str = "All done.") -> None:
        """A turn in which the model answers that first, and with words afterwards."""
        self.camera.model.brain = lambda asked: Answer(then) if asked.results else answer
        self.enter(words)


def held(gate: threading.Event) -> Brain:
    """Thinks until the gate is opened, if it is asked to think; answers everything else at once."""

    def brain(asked: Asked) -> Answer:
        return Answer("All done.", gate=gate if asked.said.strip().endswith(HELD) else None)

    return brain


def failing(status: int, body: dict[str, Any], *headers: tuple[str, str]) -> Brain:
    return lambda _: Answer(failure=Failure(status, body, headers))


def lines_and_sizes(
    camera: Camera, ready: str, busy: str, answered: str, sizes: tuple[tuple[int, int], ...] = SIZES
) -> None:
    """What every program is posed in: small panes, our line in them, typed and submitted; busy there."""
    for width, height in sizes:
        size = f"{width}x{height}"
        with camera.pane(size=(width, height)) as subject:
            gate = threading.Event()
            camera.model.brain = held(gate)
            subject.shot(f"{size}-ready", ready)
            subject.type(LINE)
            subject.shot(f"{size}-line-typed", r"ignite|1763254800")
            subject.submit()
            subject.shot(f"{size}-line-submitted", answered)
            subject.type(SHORT_LINE)
            subject.shot(f"{size}-short-line-typed", r"4f2a91c0")
            subject.submit()
            subject.shot(f"{size}-short-line-submitted", answered)
            subject.enter(HELD)
            subject.shot(f"{size}-busy", busy)
            gate.set()
            subject.pane.settled(1.0, 6)
            subject.asks(Answer("May I?", run="rm -rf ./build", escalated=True))
            subject.shot(f"{size}-permission", PERMISSION[camera.name])


PERMISSION: Final = {
    "claude": r"Do you want to proceed",
    "codex": r"Press enter to confirm|esc to cancel",
    "gemini": r"1\. Allow once",
    "opencode": r"Allow once",
}


# --- Claude Code
CLAUDE_READY: Final = r"^❯\u00a0"
CLAUDE_MENUS: Final = {
    "model": r"Esc to cancel",
    "theme": r"Esc to cancel",
    "permissions": r"Esc to cancel",
    "login": r"Esc to cancel",
    "config": r"Esc to",
    "hooks": r"Esc to",
    "resume": r"Esc to|No conversations",
    "memory": r"Esc to",
    "status": r"Esc to",
    "help": r"Esc to",
}


def _claude_sizes(camera: Camera) -> None:
    lines_and_sizes(camera, CLAUDE_READY, r"esc to interrupt", r"● All done\.")


def _claude_starts(camera: Camera) -> None:
    with camera.pane(asks="key") as subject:
        subject.shot("dialog-key", r"Do you want to use this API key\?")
    with camera.pane(asks="trust") as subject:
        subject.shot("dialog-trust", r"I trust this folder")
    with camera.pane(asks="auto mode") as subject:
        subject.shot("dialog-auto-mode", r"No, keep manual mode")
    with camera.pane("--dangerously-skip-permissions", variables={"IS_SANDBOX": "1"}) as subject:
        subject.shot("dialog-bypass", r"Yes, I accept")


def _claude_turns(camera: Camera) -> None:
    gate = threading.Event()
    camera.model.brain = held(gate)
    with camera.pane() as subject:
        subject.shot("ready", CLAUDE_READY)
        subject.type("hello there")
        subject.shot("typed", r"hello there")
        subject.enter()
        subject.shot("answered", r"● All done\.")
        subject.type("and a second row\\")
        subject.press("Enter")
        subject.type("of a person's own words")
        subject.shot("draft", r"own words")
        subject.press("C-c")
        subject.shot("ctrl-c-draft")
        subject.type(LINE)
        subject.shot("line-typed", r"ackd done")
        subject.enter()
        subject.shot("line-submitted", r"ackd done(?:.|\n)*● All done\.")
        subject.enter(HELD)
        subject.shot("busy", r"esc to interrupt")
        subject.type("one more thing")
        subject.shot("busy-typed", r"one more thing")
        subject.enter()
        subject.shot("busy-queued", r"esc to interrupt")
        subject.press("Escape")
        subject.shot("interrupt-queued")
        gate.set()
        subject.pane.settled(1.0, 6)
        subject.press("C-c")
        subject.enter("/clear")
        subject.shot("after-clear", r"^❯ /clear(?:.|\n)*^❯\u00a0$")


def _claude_interrupts(camera: Camera) -> None:
    gate = threading.Event()
    camera.model.brain = held(gate)
    with camera.pane() as subject:
        subject.until(CLAUDE_READY)
        subject.enter(HELD)
        subject.until(r"esc to interrupt")
        subject.press("Escape")
        subject.shot("interrupt-taken-back", rf"^❯\u00a0{HELD}")  # nothing was said yet: the words are given back
        gate.set()
        subject.press("C-u")
        os.mkfifo(subject.program.work / "pipe")
        subject.asks(Answer("I read it.", run=f"cat {subject.program.work}/pipe"))
        subject.shot("busy-tool", r"Running|Reading|cat ")
        subject.press("Escape")
        subject.shot("after-interrupt", r"Interrupted")
        camera.model.brain = held(gate)
        subject.press("C-u")
        subject.pane.press("C-c")
        subject.shot("ctrl-c", r"Ctrl-C again to exit", at_once=True)
        subject.pane.until(r"\? for shortcuts")
        subject.press("Escape")
        subject.pane.press("Escape")
        subject.shot("escape-escape", r"Rewind|Esc to cancel")
        subject.press("Escape")
        subject.type("/")
        subject.shot("slash-menu", r"/add-dir|/\w+ +\w+")
        subject.type("cle")
        subject.shot("slash-clear", r"/clear")


def _claude_asks(camera: Camera) -> None:
    with camera.pane() as subject:
        work = subject.program.work
        subject.until(CLAUDE_READY)
        subject.asks(Answer("May I?", run="touch made-by-claude"))
        subject.shot("permission-bash", r"Do you want to proceed")
        subject.press("Escape")
        subject.shot("permission-refused", CLAUDE_READY)
        write = {"file_path": str(work / "new.txt"), "content": "one\ntwo\n"}
        subject.asks(Answer("A file.", tool=("Write", write)))
        subject.shot("permission-write", r"Do you want to create")
        subject.press("Escape")
        subject.asks(Answer("A look.", tool=("Read", {"file_path": "/etc/hostname"})))
        subject.shot("permission-read", r"Do you want to|Esc to cancel")
        subject.press("Escape")
        (work / "old.txt").write_text("one\n")
        subject.asks(Answer("A fetch.", tool=("WebFetch", {"url": "https://example.org/", "prompt": "what is there"})))
        subject.shot("permission-fetch", r"Do you want to|Esc to cancel")
        subject.press("Escape")
        options = [{"label": "Red", "description": "as fire"}, {"label": "Blue", "description": "as water"}]
        question = {"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": options}
        subject.asks(Answer("A question.", tool=("AskUserQuestion", {"questions": [question]})))
        subject.shot("ask-user-question", r"Enter to select")
        subject.press("Escape")
        subject.press("BTab", "BTab")
        subject.shot("plan-mode", r"plan mode on")
        subject.asks(Answer("A plan.", tool=("ExitPlanMode", {"plan": "1. Look.\n2. Do it."})))
        subject.shot("plan-approval", r"❯ (?:1\. )?\w+")


def _claude_menus(camera: Camera) -> None:
    camera.model.brain = lambda _: Answer("All done.")
    for name, shows in CLAUDE_MENUS.items():
        with camera.pane() as subject:
            subject.until(CLAUDE_READY)
            subject.enter(f"/{name}")
            subject.shot(f"menu-{name}", shows)
    with camera.pane() as subject:
        subject.until(CLAUDE_READY)
        subject.enter("/model")
        subject.until(r"Esc to cancel")
        subject.press("Escape")
        subject.until(CLAUDE_READY)
        subject.enter("/mcp")
        subject.shot("after-mcp", r"No MCP servers")
        subject.enter("hello there")
        subject.until(r"● All done\.")
        subject.shot("after-menus", CLAUDE_READY)


def _claude_errors(camera: Camera) -> None:
    def error(kind: str, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": kind, "message": message}}

    with camera.pane(variables={"CLAUDE_CODE_MAX_RETRIES": "1"}) as subject:
        subject.until(CLAUDE_READY)
        credit = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade."
        long = "prompt is too long: 210000 tokens > 200000 maximum"
        over = error("rate_limit_error", "This request would exceed your rate limit.")
        for name, brain, shows in (
            ("error-400", failing(400, error("invalid_request_error", "messages: something is wrong")), r"400|wrong"),
            ("error-401", failing(401, error("authentication_error", "invalid x-api-key")), r"API key|/login|401"),
            ("error-429", failing(429, over, ("x-should-retry", "false")), r"429|rate limit"),
            ("error-500", failing(500, error("api_error", "Internal server error")), r"API Error|500"),
            ("error-529", failing(529, error("overloaded_error", "Overloaded")), r"529|[Oo]verloaded"),
            ("error-credit", failing(400, error("invalid_request_error", credit)), r"Credit balance"),
            ("error-context", failing(400, error("invalid_request_error", long)), r"Context limit|too long"),
        ):
            camera.model.brain = brain
            subject.enter(f"try {name}")
            subject.until(rf"try {name}")
            subject.until(rf"try {name}\n(?:.|\n)*(?:{shows})(?:.|\n)*^❯\u00a0(?!.*retry)")
            subject.pane.until(r"^❯\u00a0(?:.|\n)*(?:\? for shortcuts|manual mode on$|for agents)")
            subject.shot(name)
    with camera.pane(variables={"CLAUDE_CODE_MAX_RETRIES": "10"}) as subject:
        subject.until(CLAUDE_READY)
        camera.model.brain = failing(529, error("overloaded_error", "Overloaded"))
        subject.enter("try it again and again")
        subject.shot("error-retrying", r"retrying|attempt")
    used = {"statusLine": {"type": "command", "command": "echo 42% context used"}}
    gate = threading.Event()
    with camera.pane(settings=used) as subject:
        subject.shot("status-line", r"42% context used")
        camera.model.brain = held(gate)
        subject.enter(HELD)
        subject.shot("status-line-busy", r"esc to interrupt")
    with camera.pane() as subject:
        subject.until(CLAUDE_READY)
        camera.model.brain = lambda _: Answer("All of it is said.", tokens=950_000)
        subject.enter("say all")
        subject.until(r"● All of it is said\.")
        subject.shot("context", r"until auto-compact")


# --- Codex
CODEX_READY: Final = r"^› Ask Codex"
CODEX_MENUS: Final = {
    "model": r"esc back",
    "permissions": r"esc back",
    "hooks": r"esc close",
    "experimental": r"esc save",
    "plugins": r"esc close",
    "skills": r"esc back",
    "statusline": r"esc cancel",
    "keymap": r"esc close",
    "theme": r"esc",
    "resume": r"esc exit|esc",
    "agents": r"esc back|esc",
}


def _codex_sizes(camera: Camera) -> None:
    lines_and_sizes(camera, CODEX_READY, r"esc to interrupt", r"• All done\.")


def _codex_starts(camera: Camera) -> None:
    with camera.pane(asks="trust") as subject:
        subject.shot("dialog-trust", r"[Tt]rust")
    with camera.pane(settings={"model_provider": "openai"}) as subject:
        subject.shot("dialog-login", r"Sign in with")
    hook = {"type": "command", "command": "true", "timeout": 5}
    hooks = {"hooks": {"SessionStart": [{"hooks": [hook]}], "Stop": [{"hooks": [hook]}]}}
    with camera.pane(settings=hooks) as subject:
        subject.shot("dialog-hooks", r"Hooks need review")


def _codex_turns(camera: Camera) -> None:
    gate = threading.Event()
    camera.model.brain = held(gate)
    with camera.pane() as subject:
        subject.shot("ready", CODEX_READY)
        subject.type("hello there")
        subject.shot("typed", r"hello there")
        subject.enter()
        subject.shot("answered", r"• All done\.")
        subject.type("a first row")
        subject.press("C-j")
        subject.type("and a person's second")
        subject.shot("draft", r"second")
        subject.press("C-c")
        subject.shot("ctrl-c-draft")
        subject.type(LINE)
        subject.shot("line-typed", r"ackd done")
        subject.enter()
        subject.shot("line-submitted", r"ackd done(?:.|\n)*• All done\.")
        subject.enter(HELD)
        subject.shot("busy", r"esc to interrupt")
        subject.type("one more thing")
        subject.shot("busy-typed", r"one more thing")
        subject.press("C-u")
        subject.press("Escape")
        subject.shot("after-interrupt", r"interrupted")
        gate.set()
        subject.asks(Answer("May I?", run="rm -rf ./build", escalated=True))
        subject.shot("permission", r"Press enter to confirm")
        subject.press("Escape")
        subject.shot("permission-refused", CODEX_READY)
        subject.type("/")
        subject.shot("slash-menu", r"/model|/\w+")
        subject.press("C-u")
        subject.press("Escape")
        subject.pane.press("Escape")
        subject.shot("escape-escape")
        subject.press("Escape", "Escape")
        camera.model.brain = held(gate)
        subject.enter("/clear")
        subject.shot("after-clear", CODEX_READY)
    line = {"tui": {"status_line": ["model-with-reasoning", "context-remaining", "current-dir"]}}
    with camera.pane(settings={**line, "model_context_window": 100_000}) as subject:
        subject.until(CODEX_READY)
        camera.model.brain = lambda _: Answer("All done.", tokens=60_000)
        subject.enter("hello there")
        subject.until(r"• All done\.")
        subject.shot("context", r"Context \d+% left")


def _codex_menus(camera: Camera) -> None:
    camera.model.brain = lambda _: Answer("All done.")
    for name, shows in CODEX_MENUS.items():
        with camera.pane() as subject:
            subject.until(CODEX_READY)
            subject.enter("hello there")
            subject.until(r"• All done\.")
            subject.enter(f"/{name}")
            subject.shot(f"menu-{name}", shows)


def _codex_errors(camera: Camera) -> None:
    at = int(time.time()) + 5400
    limit = {"error": {"type": "usage_limit_reached", "message": "limit", "plan_type": "plus", "resets_at": at}}
    with camera.pane() as subject:
        subject.until(CODEX_READY)
        for name, brain in (
            ("error-400", failing(400, {"error": {"message": "something is wrong", "type": "invalid_request_error"}})),
            ("error-401", failing(401, {"error": {"message": "no such key", "type": "invalid_api_key"}})),
            ("error-500", failing(500, {"error": {"message": "internal", "type": "server_error"}})),
            ("error-503", failing(503, {"error": {"message": "at capacity", "code": "server_is_overloaded"}})),
            ("limit", failing(429, limit)),
        ):
            camera.model.brain = brain
            subject.enter(f"try {name}")
            subject.until(rf"try {name}(?:.|\n)*^■ (?:.|\n)*{CODEX_READY}")
            subject.shot(name)


# --- Gemini
GEMINI_READY: Final = r"^ >   Type your message"
GEMINI_MENUS: Final = ("auth", "editor", "model", "permissions", "resume", "settings", "theme")


def _gemini_sizes(camera: Camera) -> None:
    lines_and_sizes(camera, r"^ > ", r"esc to cancel", r"^ > ")


def _gemini_starts(camera: Camera) -> None:
    with camera.pane(asks="trust") as subject:
        subject.shot("trust", r"Do you trust")
    with camera.pane(settings={"security": {"auth": {"selectedType": None}}}) as subject:
        subject.shot("auth", r"How would you like to authenticate")


def _gemini_menus(camera: Camera) -> None:
    with camera.pane() as subject:
        for name in GEMINI_MENUS:
            subject.until(GEMINI_READY)
            subject.enter(f"/{name}")
            subject.shot(f"menu-{name}")
            subject.press("Escape", "Escape")


def _gemini_turns(camera: Camera) -> None:
    gate = threading.Event()
    camera.model.brain = held(gate)
    with camera.pane() as subject:
        subject.shot("ready", GEMINI_READY)
        subject.type("hello there")
        subject.shot("typed", r"hello there")
        subject.enter()
        subject.shot("answered", r"✦ All done\.")
        subject.type(LINE)
        subject.shot("line-typed", r"ackd done")
        subject.enter()
        subject.shot("line-submitted", r"ackd done(?:.|\n)*✦ All done\.")
        subject.enter(HELD)
        subject.shot("busy", r"esc to cancel")
        subject.type("one more thing")
        subject.shot("busy-typed", r"one more thing")
        subject.press("C-u")
        subject.press("Escape")
        subject.shot("after-interrupt", r"Request cancelled")
        gate.set()
        subject.press("C-u")
        subject.asks(Answer("May I?", run="rm -rf ./build"))
        subject.shot("permission", r"1\. Allow once")
        subject.press("Escape")
        subject.shot("permission-refused", r"Type your message|please do it")
        subject.press("C-u")
        write = {"file_path": str(subject.program.work / "new.txt"), "content": "one\ntwo\n"}
        subject.asks(Answer("A file.", tool=("write_file", write)))
        subject.shot("permission-write", r"1\. Allow once")
        subject.press("Escape")
        subject.press("C-u")
        subject.type("/")
        subject.shot("slash-menu", r"/?\w+ +\w+")
        subject.press("C-u")
        subject.pane.press("Escape", "Escape")
        subject.shot("escape-escape")
        subject.press("Escape", "C-u")
        camera.model.brain = lambda _: Answer("All done.", tokens=480_000)
        subject.submit("hello there")
        subject.submit("hello again")  # it shows what the turn before had used
        subject.shot("context", r"[1-9]\d*% used")
        subject.enter("/clear")
        subject.shot("after-clear", GEMINI_READY)


def _gemini_errors(camera: Camera) -> None:
    def error(code: int, message: str, status: str) -> Brain:
        return failing(code, {"error": {"code": code, "message": message, "status": status}})

    with camera.pane() as subject:
        subject.until(GEMINI_READY)
        for name, brain in (
            ("error-400", error(400, "something is wrong", "INVALID_ARGUMENT")),
            ("error-401", error(401, "no such key", "UNAUTHENTICATED")),
        ):
            camera.model.brain = brain
            subject.enter(f"try {name}")
            subject.until(rf"try {name}(?:.|\n)*^[✕ℹ] (?:.|\n)*Type your message")
            subject.shot(name)


# --- opencode
def _opencode_turns(camera: Camera) -> None:
    gate = threading.Event()
    camera.model.brain = held(gate)
    with camera.pane() as subject:
        subject.shot("ready-home", r"Ask anything")
        subject.type("hello there")
        subject.shot("typed-home", r"hello there")
        subject.enter()
        subject.shot("answered", r"All done\.(?:.|\n)*ctrl\+p commands")
        subject.type("and a person's words")
        subject.shot("typed", r"person's words")
        subject.press("C-c")
        subject.type(LINE)
        subject.shot("line-typed", r"ackd done")
        subject.enter()
        subject.shot("line-submitted", r"All done\.(?:.|\n)*All done\.")
        subject.enter(HELD)
        subject.shot("busy", r"esc interrupt")
        subject.press("Escape", "Escape")
        subject.shot("after-interrupt")
        gate.set()
        subject.pane.settled(1.0, 6)
        subject.asks(Answer("May I?", run="rm -rf ./build"))
        subject.shot("permission", r"Allow once")
        subject.press("Escape")
        subject.shot("permission-refused")
        subject.type("/")
        subject.shot("slash-menu")
        subject.press("C-c")
        subject.enter("/new")
        subject.shot("after-new", r"Ask anything")
        subject.press("C-p")
        subject.shot("menu-commands", r"Commands +esc")
    camera.model.brain = plain
    with camera.pane(size=(120, 50)) as subject:
        subject.until(r"Ask anything")
        subject.submit("hello there")
        subject.press("C-p")
        subject.shot("menu-commands-in-session", r"Commands +esc")
        subject.press("Escape")
        subject.enter("/models")
        subject.shot("menu-models", r"Select model +esc")


def _opencode_sizes(camera: Camera) -> None:
    """Its first screen does not fit into smaller ones: it draws one part over another."""
    lines_and_sizes(camera, r"Ask anything", r"esc interrupt", r"commands|Build", SIZES[-1:])


PARTS: Final[dict[str, tuple[Callable[[Camera], None], ...]]] = {
    "claude": (
        _claude_starts,
        _claude_turns,
        _claude_interrupts,
        _claude_asks,
        _claude_menus,
        _claude_errors,
        _claude_sizes,
    ),
    "codex": (_codex_starts, _codex_turns, _codex_menus, _codex_errors, _codex_sizes),
    "gemini": (_gemini_starts, _gemini_turns, _gemini_menus, _gemini_errors, _gemini_sizes),
    "opencode": (_opencode_turns, _opencode_sizes),
}


def take(name: str, part: str = "") -> None:
    """``part``: one of them, as ``turns``; all without."""
    wanted = [one for one in PARTS[name] if one.__name__.endswith(part)]
    for one in wanted:
        place = Path(tempfile.gettempdir()) / f"ackd{one.__name__}".replace("_", "-")  # shown, so the same in every run
        place.mkdir(mode=0o700)
        try:
            with Model() as model, terminal() as opened:
                one(Camera(name, model, opened, place))
        finally:
            shutil.rmtree(place, ignore_errors=True)


def main() -> None:
    """Each argument a program, or a part of its captures: ``claude``, ``claude:turns``."""
    wanted = [word.partition(":") for word in sys.argv[1:] or PARTS]
    if missing := [why for name, _, _ in wanted if (why := why_missing(name)) is not None]:
        sys.exit("\n".join(missing))
    for name, _, part in wanted:
        take(name, part)


if __name__ == "__main__":
    main()
