"""The record of a run: results.json, and what is made of it: the tables of docs/performance.md, and the plot that
the README shows as well. A test holds them together."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.bench.figures import Results
from tests.bench.picture import drawn
from tests.bench.table import markdown

REPOSITORY = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results.json")
PAGE = REPOSITORY / "docs" / "performance.md"
PICTURE = REPOSITORY / "daemon" / "bench.svg"
_PLACE = re.compile(r"(?<=<!-- bench -->\n).*?(?=\n<!-- end -->)", re.DOTALL)


def publish(results: Results) -> None:
    RESULTS.write_text(json.dumps(results.as_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PICTURE.write_text(drawn(results), encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


def published() -> Results:
    return Results.from_json(json.loads(RESULTS.read_text(encoding="utf-8")))


def with_table(page: str, results: Results) -> str:
    """The page with the tables of these results between its markers, and nothing else changed."""
    if not _PLACE.search(page):
        raise ValueError("no `<!-- bench -->` and `<!-- end -->` to put the table between")
    return _PLACE.sub(lambda _: markdown(results), page)
