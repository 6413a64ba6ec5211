"""`servemark show`: what a command printed at its end, from what it kept."""

from pathlib import Path

from servemark.errors import ExitCode
from servemark.results import directory
from servemark.results.schema.header import SCHEMA_VERSION
from tests.support.command_line import Servemark
from tests.support.measured import evenly, load_result
from tests.support.rendering import shown

FLAGS = ("--request-rate", "40", "--duration", "10", "--warmup", "1", "--slo", "p90:50")


def test_a_saved_run_is_shown_as_at_its_end(servemark: Servemark, tmp_path: Path) -> None:
    result = load_result(FLAGS, evenly(40, 11, 0.02))
    directory.write(tmp_path, result)
    done = servemark("show", str(tmp_path))
    assert (done.code, done.out, done.err) == (0, shown(result), "")
    assert servemark("show", str(tmp_path / "result.json")).out == done.out
    everything = servemark("show", str(tmp_path), "-v").out
    assert "error_rate           Yes" in everything
    assert "error_rate" not in servemark("show", str(tmp_path)).out


def test_a_mix_and_a_search_have_their_tables(servemark: Servemark, tmp_path: Path) -> None:
    result = load_result(FLAGS, evenly(40, 11, 0.02))
    point = {"rate": 40.0, "latency_ms": 20.0, "valid": True, "failed": [], "objective": "met", "met": True}
    point |= {"bottleneck": None, "over": 0, "requests": 9, "directory": None}
    found = {"points": [point], "rate": 40.0, "reason": "met twice", "ci95": None, "confirmed": False, "above": None}
    found |= {"bottleneck": "range", "rates": []}
    for name, changes, words in (
        ("mix", {"mix": [{**result, "share": 1.0, "directory": "a"}]}, "share"),
        ("search", {"max_rate": found}, "highest rate with p90:50"),
    ):
        (tmp_path / name).mkdir()
        directory.write(tmp_path / name, {**result, **changes})
        assert words in servemark("show", str(tmp_path / name)).out


def test_what_has_no_report_is_refused_by_name(servemark: Servemark, tmp_path: Path) -> None:
    missing = servemark("show", str(tmp_path / "none"))
    assert (missing.code, missing.out) == (ExitCode.BAD_INPUT, "")
    assert "cannot be read" in missing.err
    for document, words in (
        ({"kind": "load", "verdict": None}, "has measured nothing yet"),
        ({"kind": "other"}, "'other', which has no report"),
        ({"kind": "suite"}, "is damaged: Object missing required field `created`"),
    ):
        directory.write(tmp_path, {"schema_version": SCHEMA_VERSION, **document})
        assert words in servemark("show", str(tmp_path)).err
