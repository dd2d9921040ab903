from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.coordination.leases.files import normalised
from ackd.core.errors import BadPath

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def base(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "way").symlink_to("src")
    (project / "out").symlink_to(tmp_path)
    (project / "link.py").symlink_to("src/a.py")
    (project / "etc").symlink_to("/etc")
    (tmp_path / "alias").symlink_to(project)
    return project


@pytest.mark.parametrize(
    "path",
    [
        "src/a.py",
        "./src/a.py",
        "src//a.py",
        "src/./a.py",
        "src/../src/a.py",
        "way/a.py",
        "link.py",
        "{base}/src/a.py",
        "{base}/../alias/src/a.py",
    ],
)
def test_all_spellings_of_a_file_are_one_key_whether_it_exists_or_not(base: Path, path: str) -> None:
    assert normalised(base, path.format(base=base)) == "src/a.py"
    assert normalised(base.parent / "alias", path.format(base=base)) == "src/a.py"


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "src/../../x",
        "/etc/passwd",
        "out/x",
        "etc/passwd",
        "{base}-other/x",
        "",
        "  ",
        ".",
        "src/..",
        "a\nb",
        "a\0b",
        "\udce9",
        "x" * 5000,
    ],
)
def test_there_is_no_way_out_and_no_odd_name(base: Path, path: str) -> None:
    with pytest.raises(BadPath):
        normalised(base, path.format(base=base))


def test_words_say_what_is_wrong(base: Path) -> None:
    with pytest.raises(BadPath, match=r"'\.\./x': lies outside the workspace"):
        normalised(base, "../x")
