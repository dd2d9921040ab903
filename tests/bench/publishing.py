"""The record of a run: results.json, and what is made of it, the README's table and plot. A test holds them together."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.bench.figures import Results
from tests.bench.picture import drawn
from tests.bench.table import markdown

REPOSITORY = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results.json")
README = REPOSITORY / "README.md"
PICTURE = REPOSITORY / "daemon" / "bench.svg"
_PLACE = re.compile(r"(?<=<!-- bench -->\n).*?(?=\n<!-- end -->)", re.DOTALL)


def publish(results: Results) -> None:
    RESULTS.write_text(json.dumps(results.as_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PICTURE.write_text(drawn(results), encoding="utf-8")
    README.write_text(with_table(README.read_text(encoding="utf-8"), results), encoding="utf-8")


def published() -> Results:
    return Results.from_json(json.loads(RESULTS.read_text(encoding="utf-8")))


def with_table(readme: str, results: Results) -> str:
    """The README with the table of these results between its markers, and nothing else changed."""
    if not _PLACE.search(readme):
        raise ValueError("no `<!-- bench -->` and `<!-- end -->` to put the table between")
    return _PLACE.sub(lambda _: markdown(results), readme)
