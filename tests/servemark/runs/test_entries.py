"""Entries that a run makes before it starts."""

import json
from pathlib import Path

import pytest

from exporters.pipeline.provenance import source_digest
from servemark.repository.entry import Entry
from servemark.runs import entries
from servemark.workload import get

TINY = "ranking_tiny"
ENGINE = "onnxruntime"


@pytest.mark.parametrize(
    ("source", "made"),
    [(source_digest(get(TINY)), False), ("of a network of yesterday", True), (None, False)],
    ids=["current", "changed", "by hand"],
)
def test_an_entry_of_another_source_is_made_anew(
    source: str | None, made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Entry(tmp_path, TINY, ENGINE)
    entry.folder.mkdir()
    if source:
        entry.manifest.write_text(json.dumps({"source_sha256": source}))
    assert exported(entry, monkeypatch) == [entry.model] * made


def test_what_is_not_there_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry(tmp_path, TINY, ENGINE)
    assert exported(entry, monkeypatch) == [entry.model]


def exported(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    labels: list[str] = []
    monkeypatch.setattr(entries, "export_first", lambda *arguments: labels.append(arguments[-1]))
    entries.export_where_needed([entry.workload], entry.engine, entry.repository, entry.precision)
    return labels
