"""Documents for other programs: rows of a spreadsheet, a run of MLflow, test cases for a pipeline."""

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from xml.etree import ElementTree as ET  # writes only: nothing is parsed

from servemark.monitoring.mlflow import TrackedRun
from servemark.output import printable
from servemark.results import directory
from servemark.results.saved import Saved
from servemark.views.blocks import Check
from servemark.views.kinds import kind_of
from servemark.views.render.html import page

PAGE = "report.html"
CIRCUMSTANCES = ("hostname", "cpu", "cores", "git_commit", "git_dirty")
"""Columns of the machine and the code, beside its GPUs."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A cell that begins so is a formula to a spreadsheet (OWASP, "CSV Injection")."""
_NO_XML = re.compile("[\ufffe\uffff]")


def to_csv(documents: Sequence[Saved]) -> str:
    """The rows of all documents under all their columns; figures have their unit in the column's name.

    Raises KeyError, TypeError where one is damaged.
    """
    rows = [row for saved in documents for row in rows_of(saved)]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writerow({column: _cell(column) for column in columns})  # a suite's are keys of its document
    writer.writerows({column: _cell(value) for column, value in row.items()} for row in rows)
    return text.getvalue()


def rows_of(saved: Saved) -> list[dict[str, Any]]:
    """The records of a document between its name and the machine."""
    around: Mapping[str, Any] = saved.document["environment"]
    begin = {"result": saved.name, "kind": saved.kind, "created_utc": saved.document.get("created")}
    end = {key: around.get(key) for key in CIRCUMSTANCES}
    end["gpus"] = ", ".join(gpu["name"] for gpu in around.get("gpus") or [])
    return [{**begin, **record, **end, **record} for record in kind_of(saved).records(saved)]


def _cell(value: Any) -> Any:
    """A number as it is; words on one line, and never a formula."""
    if not isinstance(value, str):
        return value
    words = printable(value).replace("\n", " ").replace("\t", " ")
    return f"'{words}" if value.startswith(_FORMULA) else words


def to_run(saved: Saved) -> TrackedRun:
    """A run of MLflow with the document and its page; a document of several rows has a run for each below it.

    The request is params, numbers of the rows are metrics, and words are tags. A figure that is not known is left out,
    as MLflow has no null; the page has its reason. Raises KeyError, TypeError where the document is damaged.
    """
    rows = rows_of(saved)
    time_ms = int(datetime.fromisoformat(saved.document["created"]).timestamp() * 1000)
    shared = (
        {key: value for key, value in rows[0].items() if all(row.get(key) == value for row in rows)} if rows else {}
    )
    parts = [
        TrackedRun(f"{saved.name} {_label(row, shared) or number}", time_ms, {}, _metrics(row), _tags(row))
        for number, row in enumerate(rows, 1)
        if len(rows) > 1
    ]
    # What MLflow's own pages show: the description and the source.
    tags = {"mlflow.note.content": kind_of(saved).article(saved).answer, "mlflow.source.name": "servemark"}
    if commit := saved.document["environment"].get("git_commit"):
        tags["mlflow.source.git.commit"] = commit
    return TrackedRun(
        name=saved.name,
        time_ms=time_ms,
        params=dict(_params(saved.document.get("request") or {})),
        metrics=_metrics(shared),
        tags={**_tags(shared), **tags},
        files={
            directory.RESULT_FILE: directory.to_json(saved.document).encode(),
            PAGE: page(f"servemark: {saved.name}", [saved]).encode(),
        },
        parts=parts,
    )


def _params(request: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield what was asked for, like `load.rate`; options that were left empty are left out."""
    for key, value in request.items():
        if isinstance(value, Mapping):
            yield from _params(value, f"{above}{key}.")
        elif value not in (None, "", []):
            yield f"{above}{key}", value if isinstance(value, str) else json.dumps(value)


def _metrics(row: Mapping[str, Any]) -> dict[str, float]:
    numbers = {key: each for key, each in row.items() if isinstance(each, int | float) and not isinstance(each, bool)}
    return {key: float(each) for key, each in numbers.items() if key not in CIRCUMSTANCES and math.isfinite(each)}


def _tags(row: Mapping[str, Any]) -> dict[str, str]:
    words = {key: value for key, value in row.items() if key in CIRCUMSTANCES or isinstance(value, str | bool)}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in words.items() if value != ""}


def _label(row: Mapping[str, Any], shared: Mapping[str, Any]) -> str:
    """Return the first word that tells a row from the others."""
    return next((value for key, value in row.items() if key not in shared and isinstance(value, str)), "")


def to_junit(documents: Sequence[Saved]) -> str:
    """JUnit XML: a suite for each document, in which each constraint and each objective is a test case.

    A failure carries its remedy. Raises KeyError, TypeError where one is damaged.
    """
    root = ET.Element("testsuites", {"name": "servemark"})
    for saved in documents:
        checks = list(kind_of(saved).checks(saved))
        failed, skipped = (sum(each.ok is ok for each in checks) for ok in (False, None))
        counts = {"tests": str(len(checks)), "failures": str(failed), "errors": "0", "skipped": str(skipped)}
        created = str(saved.document.get("created", ""))[:19]
        suite = ET.SubElement(root, "testsuite", {"name": _words(saved.name), **counts, "timestamp": _words(created)})
        for check in checks:
            _write(suite, check)
    for key in ("tests", "failures", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _write(suite: ET.Element, check: Check) -> None:
    case = {"classname": _words(check.subject), "name": _words(f"{check.kind} {check.name}".strip()), "time": "0"}
    element = ET.SubElement(suite, "testcase", case)
    if check.ok is None:
        ET.SubElement(element, "skipped", {"message": _words(check.note)})
    elif not check.ok:
        message = f"{check.word.lower()}: {check.note}" if check.kind == "objective" else check.note
        failure = ET.SubElement(element, "failure", {"message": _words(message), "type": "servemark"})
        failure.text = _words(f"{check.words}\n{message}".strip())


def _words(text: str) -> str:
    """Replace the characters that XML 1.0 cannot hold."""
    return _NO_XML.sub("\ufffd", printable(text))
