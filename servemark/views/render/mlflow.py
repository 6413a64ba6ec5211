"""Documents as runs of MLflow: the request as params, numbers of the spreadsheet as metrics, its words as tags."""

import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from servemark.monitoring.mlflow import TrackedRun
from servemark.results import directory
from servemark.results.saved import Saved
from servemark.views.kinds import kind_of
from servemark.views.render.csv import CIRCUMSTANCES, rows_of
from servemark.views.render.html import page

PAGE = "report.html"


def to_run(saved: Saved) -> TrackedRun:
    """A run with the document and its page; a document of several rows has a run for each below it.

    A figure that is not known is left out, as MLflow has no null; the page has its reason. Raises KeyError, TypeError
    where the document is damaged.
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
    return TrackedRun(
        name=saved.name,
        time_ms=time_ms,
        params=dict(_params(saved.document.get("request") or {})),
        metrics=_metrics(shared),
        tags={**_tags(shared), **_of_mlflow(saved)},
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
    return {key: float(value) for key, value in row.items() if key not in CIRCUMSTANCES and _is_figure(value)}


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _tags(row: Mapping[str, Any]) -> dict[str, str]:
    words = {key: value for key, value in row.items() if key in CIRCUMSTANCES or isinstance(value, str | bool)}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in words.items() if value != ""}


def _of_mlflow(saved: Saved) -> dict[str, str]:
    """Return the tags that MLflow's own pages show: the description and the source."""
    found = {"mlflow.note.content": kind_of(saved).article(saved).answer, "mlflow.source.name": "servemark"}
    commit = saved.document["environment"].get("git_commit")
    return {**found, "mlflow.source.git.commit": commit} if commit else found


def _label(row: Mapping[str, Any], shared: Mapping[str, Any]) -> str:
    """Return the first word that tells a row from the others."""
    return next((value for key, value in row.items() if key not in shared and isinstance(value, str)), "")
