"""Documents with what lies beside them."""

from pathlib import Path

import pytest

from servemark.errors import ResultError
from servemark.results import directory
from servemark.results.saved import Saved, file_of, read_saved
from tests.support.results import saved as run_at


def test_a_run_has_its_histograms(tmp_path: Path) -> None:
    folder = run_at(tmp_path / "a", 10.0)
    saved = read_saved(folder)
    assert (saved.name, saved.kind) == ("a", "load")
    assert saved.histograms["latency_us"].count == saved.document["metrics"]["latency_ms"]["count"]
    assert (saved.requests, saved.machine_series) == (None, None)
    assert read_saved(folder / "result.json").histograms.keys() == saved.histograms.keys()


def test_a_document_alone_has_nothing_beside_it() -> None:
    saved = Saved("x", {"kind": "load"})
    assert (saved.histograms, saved.requests, saved.machine_series) == ({}, None, None)
    assert Saved("x", {"results": []}).kind == "series"


def test_the_log_has_the_requests_of_the_interval(tmp_path: Path) -> None:
    rows = "-5000000,-4000000,1000000,\n1000000000,1000000000,1002500000,\n2000000000,,2001000000,timeout\n"
    (tmp_path / "requests.csv").write_text(f"scheduled_ns,sent_ns,done_ns,error\n{rows}")
    requests = Saved("x", {}, tmp_path).requests
    assert requests
    assert [(r.due_s, r.latency_ms, r.error) for r in requests] == [(1.0, 2.5, ""), (2.0, 1.0, "timeout")]


@pytest.mark.parametrize(("name", "text"), [("requests.csv", "a,b\n1,2\n"), ("series.json", "[")])
def test_damage_names_the_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    saved = Saved("x", {}, tmp_path)
    with pytest.raises(ResultError, match=name):
        _ = saved.requests, saved.machine_series


def test_what_has_measured_nothing_is_refused(tmp_path: Path) -> None:
    directory.write(tmp_path, {"schema_version": 4, "kind": "load", "verdict": None})
    with pytest.raises(ResultError, match="has measured nothing yet"):
        read_saved(tmp_path)
    assert file_of(tmp_path) == tmp_path / "result.json"
    assert file_of(tmp_path / "none") == tmp_path / "none"
