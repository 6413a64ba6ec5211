"""A stored result of schema version 1, in which the objective was a constraint: met, and where it was missed."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from servemark.results import directory
from tests.support.documents import validated

MET: dict[str, Any] = json.loads((Path(__file__).parent / "version_1" / "result.json").read_text())


def missed() -> Any:
    """The same run with an objective that it missed, and nothing else."""
    stored = copy.deepcopy(MET)
    for constraint in stored["verdict"]["constraints"]:
        constraint["ok"] = constraint["name"] != "slo"
    stored["verdict"] |= {"valid": False, "exit_code": 4}
    return stored


STORED = missed()


def read(tmp_path: Path, document: Any) -> Any:
    (tmp_path / "result.json").write_text(json.dumps(document))
    return directory.read(tmp_path)


def test_a_stored_result_is_read_as_version_2(tmp_path: Path) -> None:
    found = read(tmp_path, MET)
    validated(found)
    assert (found["schema_version"], found["metrics"]["latency_ms"]) == (2, MET["metrics"]["latency_ms"])
    assert (found["verdict"]["valid"], found["verdict"]["objective"], found["verdict"]["exit_code"]) == (
        False,
        "met",
        2,
    )
    assert "slo" not in {constraint["name"] for constraint in found["verdict"]["constraints"]}
    [objective] = found["verdict"]["objectives"]
    assert (objective["objective"], objective["status"], objective["limit"]) == ("p90:500", "met", 500)
    assert objective["value"] == pytest.approx(found["metrics"]["latency_ms"]["p90"])
    assert objective["shown"] == {"confidence": 0.99, "requests": 222, "over": 0, "holds": True, "more_requests": 0}


def test_a_missed_objective_made_it_invalid_and_does_no_more(tmp_path: Path) -> None:
    found = read(tmp_path, STORED)["verdict"]
    assert (found["valid"], found["objective"], found["exit_code"]) == (True, "missed", 4)
    assert [objective["status"] for objective in found["objectives"]] == ["missed"]


def test_an_invalid_one_stays_so(tmp_path: Path) -> None:
    stored = copy.deepcopy(STORED)
    stored["verdict"]["constraints"][0]["ok"] = False
    found = read(tmp_path, stored)["verdict"]
    assert (found["valid"], found["objective"], found["exit_code"]) == (False, "missed", 2)


def test_points_parts_and_runs_without_an_objective(tmp_path: Path) -> None:
    part = copy.deepcopy(STORED["verdict"])
    for constraint in part["constraints"]:
        constraint["name"] = f"ranking.{constraint['name']}"
    point = {"rate": 5.0, "valid": False, "failed": ["slo"], "latency_ms": 6.0, "directory": "01"}
    stored = {**STORED, "max_rate": {"points": [point, {**point, "valid": True, "failed": []}]}, "verdict": part}
    found = read(tmp_path, stored)
    assert [(p["valid"], p["failed"], p["objective"]) for p in found["max_rate"]["points"]] == [
        (True, [], "missed"),
        (True, [], "met"),
    ]
    assert found["verdict"]["objectives"][0]["objective"] == "ranking.p90:500"
    part["constraints"].pop()
    assert read(tmp_path, stored)["verdict"]["objective"] is None
    assert read(tmp_path, {**STORED, "verdict": None})["verdict"] is None
