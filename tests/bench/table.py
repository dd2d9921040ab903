"""Results as Markdown, for the terminal and for the README. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.bench.figures import Figure, Peer, Results


def markdown(results: Results) -> str:
    lines = [f"{results.machine}, {results.file_system}, {results.date}.", ""]
    lines += [f"Note: {warning}.\n" for warning in results.warnings]
    lines += ["| what | ackd | measured beside it | ratio | target | met |", "|---|---|---|---|---|---|"]
    lines += [_row(figure) for figure in results.figures]
    if results.peers:
        lines += ["", "| beside it | setting | measured |", "|---|---|---|"]
        lines += [_peer_row(peer) for peer in results.peers]
    return "\n".join(lines) + "\n"


def _row(figure: Figure) -> str:
    beside = "" if figure.limit_value is None else f"{amount(figure.limit_value, figure.unit)} {figure.limit_name}"
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    met = {True: "yes", False: "**no**", None: ""}[figure.met]
    cells = (figure.what, amount(figure.value, figure.unit), beside, ratio, target(figure), met)
    return f"| {' | '.join(cells)} |"


def target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    sign = "≤" if figure.target.at_most else "≥"
    unit = "\N{MULTIPLICATION SIGN}" if figure.ratio is not None else figure.unit
    return f"{sign} {figure.target.bound:g} {unit}"


def _peer_row(peer: Peer) -> str:
    value = f"not measured: {peer.why_not}" if peer.value is None else amount(peer.value, peer.unit)
    return f"| {peer.name} | {peer.setting} | {value} |"


def amount(value: float, unit: str) -> str:
    """Three digits are enough to read, and more than a noisy machine can hold."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    number = f"{value:,.{digits}f}"
    return f"{number}{unit}" if unit.startswith("/") else f"{number} {unit}"
