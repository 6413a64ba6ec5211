"""Documents with what lies beside them."""

from pathlib import Path

import pytest

from servemark.errors import ResultError
from servemark.figures.registry import value_of
from servemark.results import directory
from servemark.results.saved import Saved, file_of, read_saved
from tests.support.results import saved as run_at


def test_a_run_has_its_histograms(tmp_path: Path) -> None:
    folder = run_at(tmp_path / "a", 10.0)
    saved = read_saved(folder)
    assert (saved.name, saved.kind) == ("a", "load")
    assert saved.histograms["latency_us"].count == value_of(saved.document, "requests.answered")
    assert saved.machine_series is None
    assert read_saved(folder / "result.json").histograms.keys() == saved.histograms.keys()


def test_a_document_alone_has_nothing_beside_it() -> None:
    saved = Saved("x", {"kind": "load"})
    assert (saved.histograms, saved.machine_series) == ({}, None)
    assert Saved("x", {"results": []}).kind == "series"


def test_damage_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "series.json").write_text("[")
    with pytest.raises(ResultError, match=r"series\.json"):
        _ = Saved("x", {}, tmp_path).machine_series


def test_what_has_measured_nothing_is_refused(tmp_path: Path) -> None:
    directory.write(tmp_path, {"schema_version": 4, "kind": "load", "verdict": None})
    with pytest.raises(ResultError, match="has measured nothing yet"):
        read_saved(tmp_path)
    assert file_of(tmp_path) == tmp_path / "result.json"
    assert file_of(tmp_path / "none") == tmp_path / "none"
