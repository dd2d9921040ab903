"""An agent's terminal program, as awkward as real ones: it writes down every byte it was given.

Run as a program. What it does is said by options, and while it runs by lines in the file ``control``. What it was given
goes to ``typed`` as one JSON object per line: {"bytes": hex} for each read, {"submitted": text}, {"answered": key}.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import subprocess
import sys
import termios
import time
import tty
from pathlib import Path

ROWS = 12


class FakeAgent:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.text = ""
        self.told = ""
        self.said: list[str] = []
        self.state: str = options.state
        self.until: float | None = None
        self.context = ""
        self.swallow = options.swallow_enter
        self.deaf = False
        self.escapes = 0
        self.pasting = False
        self.last_text = 0.0
        self.interrupts = 0
        self.control = 0
        self.drawn = ""
        self.children: list[subprocess.Popen[bytes]] = []

    # --- what is written down
    def note(self, **what: str) -> None:
        with Path("typed").open("a") as log:
            log.write(json.dumps(what) + "\n")

    # --- what is shown
    def draw(self) -> None:
        rows = [*self.said[-ROWS:], ""]
        if self.context:
            rows.append(f"{self.context}% context left")
        rows += self.body()
        page = "\r\n".join(rows)
        if page != self.drawn:
            self.drawn = page
            sys.stdout.write(f"\x1b[2J\x1b[H{page}")
            sys.stdout.flush()

    def body(self) -> list[str]:
        match self.state.split(" ", 1)[0]:
            case "prompt" if " " in self.state:
                asked = self.state.split(" ", 1)[1]
                return [f"Bash wants to run: {asked}", "Proceed?", "* 1. Yes", "  2. No", "Esc to cancel"]
            case "review":  # as one that no profile knows: its list looks like an input line
                return ["Hooks need review", "> 1. Review hooks", "  2. Trust all and go on", "", "? help"]
            case "prompt":
                return ["Allow this command? rm -rf build", "* 1. Yes", "  2. No"]
            case "menu":
                return ["Choose a model", "* 1. big", "  2. small", "Enter selects"]
            case "limit":
                return [
                    f"Usage limit reached, resets at {self.state.split(' ', 1)[1]}",
                    "",
                    f"> {self.text}",
                    "",
                    "? help",
                ]
            case "busy":
                return [f"* Working ({self.ticks()} esc to interrupt)", "", f"> {self.text}", "", "? help"]
            case "strange":
                return ["~~~ a screen that nobody knows ~~~"]
            case _ if self.options.hides and len(self.text) > self.options.hides:
                return ["--- more above ---", f"  {self.text[-self.options.hides :]}", "", "? help"]
            case _ if self.text.startswith("/") and self.options.slash_menu:
                return [f"> {self.text}", "  /clear   clears everything", "  /clean   removes files", "Enter runs it"]
            case _:
                return [f"> {self.text[-self.options.shown :]}", "", "? help"]

    def ticks(self) -> str:
        return f"{int(time.monotonic() * 5)}," if self.options.spinner else ""

    # --- what is done with a key
    def given(self, data: bytes) -> None:
        self.note(bytes=data.hex())
        if self.state.split(" ", 1)[0] in {"prompt", "menu", "review"}:
            self.note(answered=data.hex())
            self.state = "ready"
            return
        text = data.decode(errors="replace")
        if self.deaf and len(text) > 1:
            return  # a burst is lost; single keys arrive
        while text:
            text = self.one(text, burst=len(data) > 1)
        if self.text and self.options.on_text:
            self.state, self.options.on_text = self.options.on_text, ""

    def one(self, text: str, *, burst: bool) -> str:
        for mark, pasting in (("\x1b[200~", True), ("\x1b[201~", False)):
            if text.startswith(mark):
                self.pasting = pasting
                return text.removeprefix(mark)
        key, rest = text[0], text[1:]
        if key == "\x1b":
            self.escape()
            return rest
        self.escapes = 0
        if key in "\r\n":
            self.enter(key, burst=burst)
        elif key in "\x7f\b":
            self.text = self.text[:-1]
        elif key == "\x15":
            self.text = ""
        elif key == "\x03":
            self.interrupt()
        else:
            self.text += key
            self.last_text = time.monotonic()
        return rest

    def enter(self, key: str, *, burst: bool) -> None:
        too_soon = time.monotonic() - self.last_text < self.options.paste_s
        if self.pasting or burst or too_soon:
            self.text += " "  # part of a paste
        elif self.swallow > 0:
            self.swallow -= 1
        elif key != {"cr": "\r", "lf": "\n"}[self.options.submit]:
            pass
        elif self.text == "/clear":
            self.said, self.text, self.deaf, self.state = [], "", False, "ready"
            self.told = self.context = ""
            self.note(cleared="yes")
        elif self.text:
            self.note(submitted=self.text)
            self.said.append(f"you: {self.text}")
            work = re.search("ackd (?:done|read) ", self.text) is not None
            self.told = self.text if work else self.told  # a question does not end its work
            self.text = ""
            self.said += self.options.answers
            if self.options.work_s:
                self.work(self.options.work_s)

    def work(self, seconds: float) -> None:
        self.state, self.until = "busy", time.monotonic() + seconds

    def worked(self) -> None:
        if self.options.runs:  # still busy, for whoever looks
            subprocess.run([sys.executable, self.options.runs], stdout=subprocess.DEVNULL, check=True)
        self.state, self.until = "ready", None
        self.said.append("agent: done")
        done, self.told = re.search(r"ackd (?:done|read) (\S+)", self.told), ""
        if done is not None and self.options.obeys:
            read = [sys.executable, "-m", "ackd", "read", done[1]]
            self.note(read=subprocess.run(read, capture_output=True, text=True, check=True).stdout)
            subprocess.run([sys.executable, "-m", "ackd", "done", done[1]], stdout=subprocess.DEVNULL, check=True)
        if done is not None and self.options.says_done:
            self.say_done(done[1])

    def say_done(self, message_id: str) -> None:
        """Write the receipt as `ackd done` does, without the cost of a command."""
        receipts = Path(os.environ["ACKD_ROOT"]) / "receipts"
        name = f"done_{time.time_ns() // 1000:016}-{os.getpid() % 0x1000000:06x}.json"
        receipt = {"kind": "done", "message_id": message_id, "agent": os.environ["ACKD_AGENT"]}
        (receipts / f".{name}").write_text(json.dumps(receipt))
        (receipts / f".{name}").rename(receipts / name)
        self.note(done=message_id)

    def escape(self) -> None:
        self.escapes += 1
        if self.state.startswith("busy") and not self.options.hangs:
            self.note(interrupted="Escape")
            self.state = "ready"
        if self.options.escape_quirk and self.escapes >= 2:
            self.deaf = True

    def interrupt(self) -> None:
        self.interrupts += 1
        if self.state.startswith("busy") and self.interrupts >= self.options.hangs:
            self.note(interrupted="C-c")
            self.state = "ready"
        elif self.text:
            self.text = ""

    # --- what a test says
    def obey(self) -> bool:
        try:
            lines = Path("control").read_text().splitlines()
        except OSError:
            return True
        for line in lines[self.control :]:
            self.control += 1
            word, _, rest = line.partition(" ")
            if word == "quit":
                return False
            if word == "context":
                self.context = rest
            elif word == "say":
                self.said.append(rest)
            elif word == "write":
                self.text += rest
            elif word == "child":
                self.children.append(subprocess.Popen(rest.split(), stdin=subprocess.DEVNULL))
            elif word == "title":
                sys.stdout.write(f"\x1b]2;{rest}\x07")
            elif word == "busy" and rest:
                self.work(float(rest))
            else:
                self.state, self.until = line, None
        return True

    def run(self) -> None:
        if self.options.forgets and Path("control").exists():
            self.control = len(Path("control").read_text().splitlines())
        Path("up.new").write_text(str(os.getpid()))
        Path("up.new").rename("up")  # whoever sees it reads all of it
        while self.obey():
            if self.until is not None and time.monotonic() >= self.until:
                self.worked()
            self.draw()
            if select.select([0], [], [], self.options.tick_s)[0]:
                data = os.read(0, 65536)
                if not data:
                    return
                self.given(data)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", default="ready")
    parser.add_argument("--work-s", type=float, default=0)
    parser.add_argument("--paste-s", type=float, default=0)
    parser.add_argument("--swallow-enter", type=int, default=0)
    parser.add_argument("--submit", choices=["cr", "lf"], default="cr")
    parser.add_argument("--hangs", type=int, default=0, help="so many C-c, and no Escape, interrupt its work")
    parser.add_argument("--escape-quirk", action="store_true")
    parser.add_argument("--on-text", default="", help="what it turns to as soon as anything is typed")
    parser.add_argument("--shown", type=int, default=0, help="so many characters of its input line are shown, the last")
    parser.add_argument("--hides", type=int, default=0, help="a text longer than this hides the input line's mark")
    parser.add_argument("--slash-menu", action="store_true", help="shows a list beside a command")
    parser.add_argument("--answers", action="append", default=[], help="said at once when a line was submitted")
    parser.add_argument("--bracketed", action="store_true")
    parser.add_argument("--spinner", action="store_true")
    parser.add_argument("--says-done", action="store_true", help="leaves a receipt when its work is done")
    parser.add_argument("--forgets", action="store_true", help="what `control` said before its start is over")
    parser.add_argument("--tick-s", type=float, default=0.02)
    parser.add_argument("--obeys", action="store_true", help="runs the `ackd done` of the line when its work is done")
    parser.add_argument("--runs", default="", help="a program in Python that its work consists of")
    options = parser.parse_args()
    agent = FakeAgent(options)
    before = termios.tcgetattr(0)
    tty.setraw(0)
    if options.bracketed:
        sys.stdout.write("\x1b[?2004h")
    try:
        agent.run()
    finally:
        for child in agent.children:
            child.kill()
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        sys.stdout.write("\x1b[?2004l\x1b[2J\x1b[H")


if __name__ == "__main__":
    main()
