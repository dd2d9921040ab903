"""The pure parts of the bench, and that docs/performance.md shows the results that are on record."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from ackd.config.model import load
from ackd.endpoints.tmux.screen import load_profile
from tests.bench import children, compiled, ground, inhabited, letters, pace, publishing, race, team_idle
from tests.bench.figures import Figure, Peer, Results, at_least, at_most, percentile
from tests.bench.picture import drawn
from tests.bench.scale import Scale
from tests.bench.table import amount, markdown
from tests.faults.preloads import needs_compiler

if TYPE_CHECKING:
    from collections.abc import Callable

LATENCY = Figure("latency", "sent and flushed → handler called", "ms", (3.0, 1.0, 2.0))
DURABLE = Figure("throughput", "durable, 5 messages of 1 KB", "/s", (900, 1100, 1000), "bare", (2500,), at_least(0.5))
PEERS = (
    Peer("latency", "Slow", "fsync", "ms", (4.0,)),
    Peer("throughput", "Slow", "fsync", "/s", (500.0,)),
    Peer("throughput", "Careless", "no flushes", "/s", (1500.0,)),
    Peer("throughput", "Absent", "any", "/s", (), "the package absent is not installed"),
)
#: What was missed, and the range of its ratio.
_MISSES = re.compile(r"^- \*\*(.+?)\.?\*\*.*?\bat ([\d.]+) to ([\d.]+) ", re.DOTALL | re.MULTILINE)
RESULTS = Results("a machine", "ext4", "2026-11-16", (LATENCY, DURABLE), PEERS)


def test_the_page_shows_the_results_on_record() -> None:
    page = publishing.PAGE.read_text(encoding="utf-8")
    assert publishing.with_table(page, publishing.published()) == page, "write it anew with `make bench`"


def test_the_page_names_each_miss_on_record_with_a_range_that_it_is_in() -> None:
    text = publishing.PAGE.read_text(encoding="utf-8")
    (section,) = re.findall(r"^## What is missed, and why$(.*?)^## ", text, re.DOTALL | re.MULTILINE)
    said = [(name, float(low), float(high)) for name, low, high in _MISSES.findall(section)]
    missed = [figure for figure in publishing.published().figures if figure.met is False]
    assert len(said) == len(missed)
    for (name, low, high), figure in zip(said, missed, strict=True):
        assert figure.what.split(",")[0].split()[0] == name.split()[0].rstrip(","), name
        assert figure.ratio is not None
        assert low <= round(figure.ratio, 2) <= high, name


def test_the_readme_says_what_is_on_record() -> None:
    (said,) = re.findall(
        r"some ([\d,]+) messages\s+a second", (publishing.REPOSITORY / "README.md").read_text(encoding="utf-8")
    )
    durable = next(figure for figure in publishing.published().figures if figure.what.startswith("durable"))
    assert float(said.replace(",", "")) == pytest.approx(durable.value, rel=0.25)


def test_what_a_file_per_message_cannot_reach_is_no_target() -> None:
    beside_redis = [one for one in publishing.published().figures if one.limit_name.startswith("Redis Streams, by 64")]
    assert [one.target for one in beside_redis] == [None, None]


def test_the_plot_is_that_of_the_results_on_record() -> None:
    assert publishing.PICTURE.read_text(encoding="utf-8") == drawn(publishing.published())


def test_results_come_back_from_json_as_they_were() -> None:
    assert Results.from_json(json.loads(json.dumps(RESULTS.as_json()))) == RESULTS


def test_a_figure_is_the_median_and_its_ratio_that_of_the_medians() -> None:
    assert LATENCY.value == 2.0
    assert (DURABLE.value, DURABLE.limit_value, DURABLE.ratio) == (1000, 2500, 0.4)


@pytest.mark.parametrize(
    ("target", "ours", "limit", "met"),
    [
        (at_most(2.5), 2.5, 1.0, True),
        (at_most(2.5), 2.6, 1.0, False),
        (at_least(0.5), 0.5, 1.0, True),
        (at_least(0.5), 0.4, 1.0, False),
        (None, 1.0, 1.0, None),
    ],
)
def test_a_target_is_about_the_ratio(target: object, ours: float, limit: float, met: bool | None) -> None:
    assert Figure("b", "w", "ms", (ours,), "limit", (limit,), target).met is met  # type: ignore[arg-type]


def test_a_target_without_a_limit_is_about_the_figure() -> None:
    assert Figure("idle", "memory", "MB", (61.0,), target=at_most(60)).met is False
    assert Figure("idle", "memory", "MB", (60.0,), target=at_most(60)).met is True


def test_a_percentile_is_a_value_that_happened() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [percentile(values, percent) for percent in (50, 99, 100)] == [50.0, 99.0, 100.0]
    assert percentile([7.0], 99) == 7.0
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0


def test_the_table_says_what_was_missed_and_what_was_not_measured() -> None:
    table = markdown(RESULTS)
    assert (
        "| durable, 5 messages of 1 KB | 1,000/s | 2,500/s bare | 0.40 | ≥ 0.5 \N{MULTIPLICATION SIGN} | **no** |"
        in table
    )
    assert "| Slow | fsync | 4.00 ms | 500/s |" in table
    assert "| Absent | any |  | not measured: the package absent is not installed |" in table


def test_amounts_have_three_digits() -> None:
    assert [amount(value, "ms") for value in (0.123, 12.34, 1234.5)] == ["0.12 ms", "12.3 ms", "1,234 ms"]
    assert amount(1234.5, "/s") == "1,234/s"


def test_the_table_goes_between_its_markers_and_nothing_else_changes() -> None:
    readme = "before\n<!-- bench -->\nold\n<!-- end -->\nafter <!-- end -->\n"
    assert publishing.with_table(readme, RESULTS) == readme.replace("old", markdown(RESULTS))
    with pytest.raises(ValueError, match="bench"):
        publishing.with_table("no markers", RESULTS)


def test_bars_are_as_long_as_their_values() -> None:
    root = ET.fromstring(drawn(RESULTS))
    space = "{http://www.w3.org/2000/svg}"
    widths = [float(bar.get("width", "")) for bar in root.findall(f"{space}rect")][1:]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.2), "latency: 2 and 4 ms"
    ours, bare, slow, careless = widths[2:]
    assert [bare / ours, ours / slow, careless / slow] == pytest.approx([2.5, 2.0, 3.0], rel=0.01)
    words = [text.text for text in root.findall(f"{space}text")]
    assert "Careless *" in words
    assert "Absent" not in words


def test_a_wait_is_from_the_sending_to_the_call_without_the_warm_up(tmp_path: Path) -> None:
    notes = tmp_path / "sent"
    pace.paced(notes, 2, lambda: lambda number: pace.note(tmp_path / "called", number), lambda: None)
    sent, called = pace.read(notes), pace.read(tmp_path / "called")
    assert list(sent) == list(called) == [str(number) for number in range(pace.WARM_UP + 2)]
    assert len(pace.waits_ms(sent, called)) == 2
    assert pace.waits_ms({"20": 1_000_000}, {"20": 3_500_000}) == [2.5]
    with pytest.raises(KeyError):
        pace.waits_ms({"20": 1}, {})


def test_letters_are_known_by_their_numbers() -> None:
    assert letters.number_in(letters.name(7)) == letters.number_in(letters.message_id(7)) == "7"
    head, _, body = letters.letter(7).partition(b"\n\n")
    assert len(body) == letters.BODY_BYTES
    assert letters.message_id(7).encode() in head


def test_the_machine_is_described(tmp_path: Path) -> None:
    assert re.fullmatch(r".+, \d+ cores?, Linux \S+, (the system's )?Python 3\S+", ground.machine())
    assert ground.file_system_of(tmp_path) != "unknown"
    assert ground.file_system_of(Path("/proc/self")) == "proc"
    assert not ground.has_journal(Path("/proc"))


def test_who_is_not_root_measures_in_a_temporary_directory_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with ground.ground() as here:
        assert not here.place.is_mount()
        assert "not root" in here.warnings[0]
    assert not here.place.exists()


@pytest.mark.parametrize("end", [KeyboardInterrupt, None])
def test_the_image_is_gone_however_the_bench_ends(end: type[BaseException] | None) -> None:
    with contextlib.suppress(KeyboardInterrupt), ground.ground() as here:
        mounted = here.place.is_mount()
        assert mounted == ("loop-mounted image" in here.file_system)
        assert ground.has_journal(here.place) or not mounted
        assert mounted or here.warnings, "a bench without an image of its own says why"
        if end is not None:
            raise end
    assert not here.place.exists()
    assert str(here.place) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forking beside the threads of pytest-xdist
def test_a_race_lasts_until_the_consumer_has_what_the_senders_sent(tmp_path: Path) -> None:
    def send(number: int, ready: Callable[[], object]) -> None:
        ready()
        (tmp_path / str(number)).touch()

    def consume(ready: Callable[[], object]) -> None:
        ready()
        while len(list(tmp_path.iterdir())) < 3:
            time.sleep(0.001)

    assert 0 < race.seconds([partial(send, number) for number in range(3)], consume) < race.PATIENCE_S


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_sender_that_fails_ends_the_race_and_the_consumer_with_it(capfd: pytest.CaptureFixture[str]) -> None:
    def fail(ready: Callable[[], object]) -> None:
        ready()
        raise RuntimeError("the disk is full")

    def wait(ready: Callable[[], object]) -> None:
        ready()
        signal.pause()

    with pytest.raises(race.BenchFailed):
        race.seconds([fail], wait)
    assert "the disk is full" in capfd.readouterr().err


def test_every_message_is_sent_by_one_sender() -> None:
    shares = [race.share(5000, 16, number) for number in range(16)]
    assert sorted(number for share in shares for number in share) == list(range(5000))


@needs_compiler
@pytest.mark.parametrize("flush", [True, False])
def test_the_loop_in_c_archives_every_message(tmp_path: Path, flush: bool) -> None:
    few = Scale(messages=50, senders=3)
    assert compiled.throughput(tmp_path / "it", few, flush=flush) > 0
    spooled = tmp_path / "it" / "spooled"
    assert sorted(path.name for path in (spooled / "archive").iterdir()) == [
        f"message_{number:016d}.mime" for number in range(50)
    ]
    assert len((spooled / "log").read_text().splitlines()) == 50
    assert not list((spooled / "queue").iterdir())


@needs_compiler
def test_a_loop_in_c_that_fails_is_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.c"
    broken.write_text("int main(void) { return 1; }\n")
    monkeypatch.setattr(compiled, "SOURCE", broken)
    with pytest.raises(race.BenchFailed, match="spool: exit 1"):
        compiled.throughput(tmp_path / "it", Scale(messages=1), flush=False)


def test_the_teams_that_live_are_ones_that_can_be_run(tmp_path: Path) -> None:
    tables = inhabited.tables_of_workers(2) + inhabited.tables_of_starters(1)
    inhabited.make_team(tmp_path, tables + inhabited.tables_of_panes(3, team_idle.PANE))
    config = load(tmp_path / "ackd.toml")
    kinds = [table.endpoint for table in config.agents.values()]
    assert [kinds.count(kind) for kind in ("process", "tmux")] == [3, 3]
    assert config.tmux.socket == str(inhabited.socket_of(tmp_path))
    load_profile("bench", config.profiles)


def test_only_whole_notes_are_read(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    assert inhabited.notes(notes) == []
    notes.write_text("starter_1 1000 7\nstarter_2 20")
    assert inhabited.notes(notes) == [("starter_1", 1000, 7)]


def test_a_supervisor_that_is_not_there_is_said_to_be_missing() -> None:
    def never(_place: Path, _count: int) -> contextlib.nullcontext[None]:
        raise NotImplementedError

    ours = children.Keeper("ackd", "ackd", never, starts=[1.0], restarts=[2.0])
    absent = children.Keeper("absent", "no_such_package", never)
    (figure,) = children._figures(ours, absent, 50)
    assert "absent was not measured: the package no_such_package is not installed (extra: bench)" in figure.what
    assert figure.limit_value is None
    there = children.Keeper("there", "ackd", never, at_most(2), starts=[0.5], restarts=[1.0])
    assert [figure.ratio for figure in children._figures(ours, there, 50)] == [2.0, 2.0]
