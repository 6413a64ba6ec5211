"""Tables of the pages that docs/results/ keeps."""

from typing import Any

from servemark.views.markdown_table import circumstances

PLAIN: dict[str, Any] = {"cpu": "A CPU", "cores": 2, "memory_gb": 25.3, "gpus": [], "os": "Linux", "python": "3.11.7"}
PLAIN |= {"git_commit": "abc", "git_dirty": False, "packages": {"numpy": "1.26.4", "torch": "2.15.0"}}


def test_circumstances_are_a_table() -> None:
    made: Any = {**PLAIN, "gpus": [{"name": "H100"}, {"name": "H200"}], "git_dirty": True}
    assert circumstances("2026-11-20T12:00:00+00:00", made).splitlines() == [
        "| date | 2026-11-20 |",
        "|---|---|",
        "| machine | A CPU, 2 cores, 25.3 GB, H100, H200 |",
        "| system | Linux, Python 3.11.7 |",
        "| commit | abc with uncommitted changes |",
        "| packages | numpy 1.26.4, torch 2.15.0 |",
    ]


def test_what_is_unknown_is_said() -> None:
    made: Any = {**PLAIN, "git_commit": None, "git_dirty": None}
    lines = circumstances("2026-11-20T12:00:00+00:00", made).splitlines()
    assert lines[2].endswith("no GPU |")
    assert lines[4] == "| commit | unknown |"
