"""Results as runs of an MLflow tracking server, through its REST API: what is asked, figures, tags and files."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from servemark.errors import MAX_QUOTED, ServerError, parsing
from servemark.monitoring import send, session_with

MOST_PARAMS, MOST_METRICS, MOST_CHARACTERS = 100, 1000, 5000
"""Of one call: MLflow's documented limits, and the shortest of its limits on a value."""
EXPERIMENT = "servemark"
_API, _ARTIFACTS = "/api/2.0/mlflow", "/api/2.0/mlflow-artifacts/artifacts"
_PROXIED = "mlflow-artifacts"
_MISSING = "RESOURCE_DOES_NOT_EXIST"
_NOT_ALLOWED = (401, 403)
_START = "start it there (`mlflow server`), or correct the URL"
_CREDENTIALS = "set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"


@dataclass(frozen=True)
class TrackedRun:
    """One run as MLflow keeps it; `parts` are runs below it."""

    name: str
    time_ms: int
    """When it was begun, since 1970."""
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    files: Mapping[str, bytes] = field(default_factory=dict)
    parts: Sequence["TrackedRun"] = ()


class Mlflow:
    """A tracking server. The variables of MLflow's own client name the experiment and the credentials.

    Raises ServerError where it cannot be reached or refuses. Source: MLflow's documentation, "REST API".
    """

    def __init__(self, url: str, variables: Mapping[str, str] = os.environ) -> None:
        token = variables.get("MLFLOW_TRACKING_TOKEN", "")
        self._url, self._session = url.rstrip("/"), session_with(token)
        if not token and (user := variables.get("MLFLOW_TRACKING_USERNAME")):
            self._session.auth = (user, variables.get("MLFLOW_TRACKING_PASSWORD", ""))
        self._experiment = self._find(variables.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT)

    def add(self, run: TrackedRun) -> str:
        """Add a run with all that it has, and return its page."""
        return f"{self._url}/#/experiments/{self._experiment}/runs/{self._add(run, {})}"

    def _find(self, name: str) -> str:
        """Return the id of an experiment, which is made if it is not there."""
        address = f"experiments/get-by-name?experiment_name={quote(name, safe='')}"
        with self._understood():
            found = self._call("GET", address, allowed=_MISSING).get("experiment")
            return str((found or self._call("POST", "experiments/create", {"name": name}))["experiment_id"])

    def _add(self, run: TrackedRun, tags: Mapping[str, str]) -> str:
        order = {"experiment_id": self._experiment, "run_name": run.name, "start_time": run.time_ms}
        with self._understood():
            made = self._call("POST", "runs/create", {**order, "tags": _pairs({**run.tags, **tags})})["run"]["info"]
            run_id, folder = str(made["run_id"]), str(made["artifact_uri"])
        status = "FAILED"
        try:
            self._log(run, run_id)
            for name, content in run.files.items():
                self._upload(folder, name, content)
            for part in run.parts:
                self._add(part, {"mlflow.parentRunId": run_id})
            status = "FINISHED"
        finally:
            self._call("POST", "runs/update", {"run_id": run_id, "status": status, "end_time": run.time_ms})
        return run_id

    def _log(self, run: TrackedRun, run_id: str) -> None:
        figures = [{"key": key, "value": of, "timestamp": run.time_ms, "step": 0} for key, of in run.metrics.items()]
        for kind, entries, most in (("params", _pairs(run.params), MOST_PARAMS), ("metrics", figures, MOST_METRICS)):
            for first in range(0, len(entries), most):
                self._call("POST", "runs/log-batch", {"run_id": run_id, kind: entries[first : first + most]})

    def _upload(self, folder: str, name: str, content: bytes) -> None:
        place = urlsplit(folder)
        if place.scheme != _PROXIED:
            raise ServerError(
                f"MLflow keeps the files of runs at {folder} and takes none itself",
                fix="start it with its default, `mlflow server --serve-artifacts`",
            )
        self._send("PUT", f"{self._url}{_ARTIFACTS}/{quote(place.path.strip('/'))}/{quote(name)}", data=content)

    def _call(
        self, method: str, path: str, document: Mapping[str, object] | None = None, *, allowed: str = ""
    ) -> dict[str, Any]:
        """Send a document and return the answer, an error too if it is the `allowed` one."""
        return self._send(method, f"{self._url}{_API}/{path}", allowed=allowed, json=document)

    def _send(self, method: str, url: str, *, allowed: str = "", **body: Any) -> dict[str, Any]:
        answer, said = send(self._session, method, url, to="MLflow", fix=_START, **body)
        taken = answer.status_code // 100 == 2  # a redirect has taken nothing
        if not (taken or (allowed and said.get("error_code") == allowed)):
            words = f"{answer.status_code} {said.get('message', '')}".rstrip()
            raise ServerError(
                f"MLflow refused {method} {url}: {words[:MAX_QUOTED]}",
                fix=_CREDENTIALS if answer.status_code in _NOT_ALLOWED else "give the URL of an MLflow 3 server",
            )
        return said

    @contextlib.contextmanager
    def _understood(self) -> Iterator[None]:
        """Read an answer; what is another server's raises ServerError."""
        with parsing(f"the answer of {self._url}", ServerError, fix="give the URL of an MLflow tracking server"):
            yield


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value[:MOST_CHARACTERS]} for key, value in values.items()]
