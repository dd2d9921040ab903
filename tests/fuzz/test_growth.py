"""Four times the input costs about four times the work and the memory, however it is made.

Work is counted in calls, which is exact, and in processor time, which also sees what a single call does inside. Time is
noisy: the best of several is taken, and the bound is far above four and below sixteen, which a square would give.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from ackd.config.problems import key_lines
from ackd.config.site import read_toml
from ackd.coordination.ensemble.rules import plain_words
from ackd.core.errors import AckdError
from ackd.formats import bodies, ignite, yaml_body
from tests.fuzz.families import SEEDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

TIMES: Final = 4
MOST: Final = 10.0
MOST_CALLS: Final = 4.6
#: Below this the clock, not the code, is measured.
LEAST_S: Final = 0.003
LEAST_BYTES: Final = 200_000

_HEAD: Final = SEEDS["message"][0].partition(b"\n\n")[0].decode()


def message(text: str) -> None:
    data = text.encode()
    ignite.decode(data, "worker")
    ignite.rewrite(data, [(ignite.STATUS, "acked")])


def report(text: str) -> None:
    plain_words.vague_words(text)
    plain_words.missing_facts(text, ("worker",))
    plain_words.is_report(text)


def body(text: str) -> None:
    bodies.check("task_list", text)


def toml(text: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        read_toml(Path(file.name))


CASES: Final[dict[str, tuple[Callable[[str], object], Callable[[int], str], int]]] = {
    # name: who reads it, a text of size n, n
    "one long header": (message, lambda n: f"X-Long: {'a' * n}\n{_HEAD}\n\nx", 11_000),
    "many headers": (message, lambda n: "".join(f"X-{i}: a\n" for i in range(n)) + f"{_HEAD}\n\nx", 1_000),
    "many recipients": (message, lambda n: f"{_HEAD}\n\n".replace("To: ", f"To: {'a, ' * n}"), 3_000),
    "one long name of a header": (message, lambda n: f"{'a' * n}: x\n{_HEAD}\n\nx", 11_000),
    "a header of blanks": (message, lambda n: f"X-A:{' ' * n}b\n{_HEAD}\n\nx", 11_000),
    "a second header of the same name": (message, lambda n: "X-A: b\n" * n, 2_000),
    "no blank line": (message, lambda n: "a\r" * n, 200_000),
    "a body of keys": (message, lambda n: f"{_HEAD}\n\n" + "\ntask_id" * n, 100_000),
    "a body of line ends": (message, lambda n: f"{_HEAD}\n\n" + "\n" * n, 200_000),
    "nested lists": (yaml_body.load, lambda n: "[" * n, 50_000),
    "nested mappings": (yaml_body.load, lambda n: "{a: " * n, 50_000),
    "nested dashes": (yaml_body.load, lambda n: "- " * n, 50_000),
    "nested question marks": (yaml_body.load, lambda n: "? " * n, 50_000),
    "many anchors": (yaml_body.load, lambda n: "- &a x\n" * n, 50_000),
    "many aliases": (yaml_body.load, lambda n: "- *a\n" * n, 50_000),
    "many keys": (yaml_body.load, lambda n: "".join(f"k{i}: v\n" for i in range(n)), 4_500),
    "many items of one line": (yaml_body.load, lambda n: "[" + "a, " * n + "]", 4_500),
    "one long key": (yaml_body.load, lambda n: f"{'k' * n}: v", 200_000),
    "one long key in quotes": (yaml_body.load, lambda n: f'"{"k" * n}": v', 200_000),
    "one long number": (yaml_body.load, lambda n: f"a: {'1' * n}", 200_000),
    "one long sexagesimal number": (yaml_body.load, lambda n: f"a: 1{':59' * n}", 60_000),
    "one long fraction": (yaml_body.load, lambda n: f"a: 1.{'1' * n}e+1", 200_000),
    "one long time": (yaml_body.load, lambda n: f"a: 2026-11-16T01:02:03.{'1' * n}Z", 200_000),
    "quotes that never end": (yaml_body.load, lambda n: 'a: "' + "\\x41" * n, 60_000),
    "a text of many lines": (yaml_body.load, lambda n: "a: |\n" + "  x\n" * n, 60_000),
    "words of many lines": (yaml_body.load, lambda n: "a: x\n" + "  x\n" * n, 60_000),
    "many comments": (yaml_body.load, lambda n: "# x\n" * n, 60_000),
    "many documents": (yaml_body.load, lambda n: "---\n" * n, 60_000),
    "many directives": (yaml_body.load, lambda n: "".join(f"%TAG !{i}! x\n" for i in range(n)), 10_000),
    "many blanks": (yaml_body.load, lambda n: " " * n + "a", 200_000),
    "many mistakes": (body, lambda n: "goal: x\nstrategy_summary: y\ntasks:\n" + "- 1\n" * n, 4_500),
    "a report of digits": (report, lambda n: "1" * n, 20_000),
    "a report of thousands": (report, lambda n: "1,111" * n, 8_000),
    "a report of numbers": (report, lambda n: "1 " * n, 20_000),
    "a report of dots": (report, lambda n: "a." * n, 20_000),
    "a report of slashes": (report, lambda n: "a/" * n, 20_000),
    "a report of blanks": (report, lambda n: " " * n + "x", 20_000),
    "a report of lines": (report, lambda n: "line 1 of " * n, 8_000),
    "a report of agents": (report, lambda n: "worker" * n, 8_000),
    "a report in Japanese": (report, lambda n: "件" * n, 20_000),
    "a config of one long word": (toml, lambda n: "a" * n, 50_000),
    "a config of short words": (toml, lambda n: "a " * n, 50_000),
    "a config of dotted words": (toml, lambda n: "'" + "a.a.a a." * n, 20_000),
    "a config of open quotes": (toml, lambda n: "'\"" * n, 50_000),
    "a config of one long list": (toml, lambda n: f"a = [{'1, ' * n}]", 10_000),
    "a config of one long header": (toml, lambda n: f"[{'a' * n}]", 50_000),
    "a config of tables": (key_lines, lambda n: "".join(f"[agents.a{i}]\n" for i in range(n)), 4_000),
    "a config of blanks": (key_lines, lambda n: " " * n + "x", 50_000),
    "a config of dots": (key_lines, lambda n: "a." * n, 20_000),
    "a config of quotes": (key_lines, lambda n: "''." * n, 20_000),
}


@pytest.mark.parametrize("name", CASES)
def test_four_times_the_input_is_about_four_times_the_work(name: str) -> None:
    read, made, size = CASES[name]
    few, many = made(size), made(TIMES * size)
    calls(read, many)  # what is imported or compiled at first use is nobody's input
    assert calls(read, many) <= MOST_CALLS * max(calls(read, few), 500)
    assert peak_bytes(read, many) <= MOST * max(peak_bytes(read, few), LEAST_BYTES)
    ratios = (cpu_s(read, many) / max(cpu_s(read, few), LEAST_S) for _ in range(4))
    assert any(ratio <= MOST for ratio in ratios)


@pytest.mark.parametrize("part", ["a.", "'b' . ", '"" .'])
def test_an_endless_dotted_key_in_the_config_is_refused_before_it_is_parsed(part: str) -> None:
    """tomllib takes the square of its length for it."""
    assert cpu_s(toml, part * 150_000 + "a = 1") < 1


def tried(read: Callable[[str], object], text: str) -> None:
    with contextlib.suppress(AckdError):
        read(text)


def calls(read: Callable[[str], object], text: str) -> int:
    count = 0

    def counted(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event.endswith("call")

    sys.setprofile(counted)
    try:
        tried(read, text)
    finally:
        sys.setprofile(None)
    return count


def peak_bytes(read: Callable[[str], object], text: str) -> int:
    tracemalloc.start()
    try:
        tried(read, text)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def cpu_s(read: Callable[[str], object], text: str) -> float:
    def once() -> float:
        began = time.process_time()
        tried(read, text)
        return time.process_time() - began

    return min(once() for _ in range(2))
