"""Results as Markdown, for the terminal and for docs/performance.md. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.bench.figures import Figure, Peer, Results

_HEAD = "| what | ackd | measured beside it | ratio | target | met |\n|---|---|---|---|---|---|"
_PEER_HEAD = "| other queues | setting | sent → handled, p50 | throughput |\n|---|---|---|---|"


def markdown(results: Results) -> str:
    parts = [f"Measured on {results.machine}; {results.file_system}; {results.date}."]
    parts += [f"Note: {warning}." for warning in results.warnings]
    parts.append("\n".join([_HEAD, *(_row(figure) for figure in results.figures)]))
    if results.peers:
        parts.append("\n".join([_PEER_HEAD, *_peer_rows(results.peers)]))
    return "\n\n".join(parts)


def _row(figure: Figure) -> str:
    beside = "" if figure.limit_value is None else f"{amount(figure.limit_value, figure.unit)} {figure.limit_name}"
    ratio = "" if figure.ratio is None else amount(figure.ratio, "")
    met = {True: "yes", False: "**no**", None: ""}[figure.met]
    return _line(figure.what, amount(figure.value, figure.unit), beside, ratio, target(figure), met)


def target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    sign = "≤" if figure.target.at_most else "≥"
    unit = "\N{MULTIPLICATION SIGN}" if figure.ratio is not None else figure.unit
    return f"{sign} {figure.target.bound:g} {unit}"


def _peer_rows(peers: tuple[Peer, ...]) -> list[str]:
    """One line for a queue in a setting, with what was measured of it."""
    kinds = dict.fromkeys((peer.name, peer.setting) for peer in peers)
    return [_line(*kind, _measured(peers, kind, "ms"), _measured(peers, kind, "/s")) for kind in kinds]


def _measured(peers: tuple[Peer, ...], kind: tuple[str, str], unit: str) -> str:
    for peer in peers:
        if (peer.name, peer.setting) == kind and peer.unit == unit:
            return f"not measured: {peer.why_not}" if peer.value is None else amount(peer.value, unit)
    return ""


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def amount(value: float, unit: str) -> str:
    """Three digits are enough to read, and more than a noisy machine can hold."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    number = f"{value:,.{digits}f}"
    return f"{number}{unit}" if unit in {"", "/s"} else f"{number} {unit}"
