"""`servemark list`: the workloads as a table and as JSON."""

import dataclasses
import json

import pytest

from servemark.cli import list as listing
from servemark.workload import get, names
from tests.support.command_line import Servemark

LONG = "transformers--google-bert--bert-large-uncased-whole-word-masking-finetuned-squad"


def test_a_long_name_shortens_no_other_column(servemark: Servemark, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = get("ranking_tiny")
    monkeypatch.setattr(listing, "workloads", lambda: {LONG: dataclasses.replace(tiny, name=LONG)})
    monkeypatch.setenv("COLUMNS", "120")
    _, out, _ = servemark("list")
    assert "…" not in out
    assert tiny.task in out


def test_every_workload_is_in_the_json(servemark: Servemark) -> None:
    assert [row["workload"] for row in json.loads(servemark("list", "--json").out)] == names()
