"""The plot in the README and in docs/performance.md: latency and throughput beside other queues, two panels of bars in an
SVG. Pure.

A dark card in light and dark pages alike, as the picture of the demo is: a picture in a README cannot know which of the
two it stands in. Bars of queues that never flush are pale: they do less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from tests.bench.table import amount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.figures import Figure, Results

WIDTH, MARGIN, GAP = 1000, 28, 36
PANEL = (WIDTH - 2 * MARGIN - GAP) / 2
LABEL, VALUE = 186, 72
ROW, BAR, TOP = 28, 16, 88
CARD, TEXT, DIM = "#292929", "#d6d8d6", "#9a9d9b"
OURS, LIMIT, PEER, UNFLUSHED = "#98a84b", "#868887", "#68a0b3", "#41535a"
NEVER_FLUSHES = "no flushes"


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    unit: str
    colour: str


def drawn(results: Results) -> str:
    latency, throughput = _latency(results), _throughput(results)
    height = TOP + ROW * max(len(latency), len(throughput)) + 48
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="Helvetica, Arial, sans-serif">',
        f"<title>{escape(_spoken(latency, throughput))}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{CARD}"/>',
        *_panel(MARGIN, "Latency", "sent → handler called, 50/s, median; shorter is better", latency),
        *_panel(MARGIN + PANEL + GAP, "Throughput", f"{_work(results)}; longer is better", throughput),
        _text(MARGIN, height - 18, f"{results.machine}; {results.file_system}; {results.date}", DIM, 12),
        _text(WIDTH - MARGIN, height - 18, "* never flushes to disk", DIM, 12, anchor="end"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _latency(results: Results) -> list[Bar]:
    ours = [_ours(figure) for figure in results.figures if figure.what.startswith("sent and flushed")]
    return ours + _peers(results, "latency")


def _throughput(results: Results) -> list[Bar]:
    (against_bare, *_) = _durable(results)
    assert against_bare.limit_value is not None
    bare = Bar("bare spool loop", against_bare.limit_value, against_bare.unit, LIMIT)
    return [_ours(against_bare), bare, *_peers(results, "throughput")]


def _durable(results: Results) -> list[Figure]:
    return [figure for figure in results.figures if figure.bench == "throughput"]


def _work(results: Results) -> str:
    return _durable(results)[0].what.replace(" messages of", " \N{MULTIPLICATION SIGN}")


def _ours(figure: Figure) -> Bar:
    return Bar("ackd", figure.value, figure.unit, OURS)


def _peers(results: Results, bench: str) -> list[Bar]:
    bars = []
    for peer in results.peers:
        if peer.bench == bench and peer.value is not None:
            careless = peer.setting.startswith(NEVER_FLUSHES)
            label = f"{peer.name} *" if careless else peer.name
            bars.append(Bar(label, peer.value, peer.unit, UNFLUSHED if careless else PEER))
    return bars


def _panel(left: float, title: str, subtitle: str, bars: Sequence[Bar]) -> list[str]:
    longest = max(bar.value for bar in bars)
    room = PANEL - LABEL - VALUE
    parts = [_text(left, 40, title, TEXT, 19, "bold"), _text(left, 62, subtitle, DIM, 12.5)]
    for number, bar in enumerate(bars):
        middle = TOP + ROW * number + ROW / 2
        length = max(2.0, room * bar.value / longest)
        weight = "bold" if bar.colour == OURS else "normal"
        parts += [
            _text(left + LABEL - 10, middle + 4.5, bar.label, TEXT, 13, weight, "end"),
            (
                f'<rect x="{left + LABEL:.1f}" y="{middle - BAR / 2:.1f}" width="{length:.1f}" height="{BAR}" rx="2" '
                f'fill="{bar.colour}"/>'
            ),
            _text(left + LABEL + length + 7, middle + 4.5, amount(bar.value, bar.unit), TEXT, 13, weight),
        ]
    return parts


def _text(
    x: float, y: float, words: str, colour: str, size: float, weight: str = "normal", anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


def _spoken(*panels: Sequence[Bar]) -> str:
    """For who cannot see it."""
    return "; ".join(f"{bar.label} {amount(bar.value, bar.unit)}" for panel in panels for bar in panel)
