"""A double of MLflow's tracking server: its REST API as MLflow 3.17 answered, and what it has been given."""

import json
from contextlib import AbstractContextManager

from tests.support.rest_server import Answer, Document, RestServer, running

API, ARTIFACTS = "/api/2.0/mlflow/", "/api/2.0/mlflow-artifacts/artifacts/"
MOST = {"params": 100, "metrics": 1000, "tags": 100}
LONGEST = 5000


class MlflowServer(RestServer):
    """Refuses what MLflow refuses: an unknown experiment or run, too many entries, a value that is too long."""

    def __init__(
        self, *, authorization: str = "", artifacts: str = "mlflow-artifacts:", broken: str = "", redirected: str = ""
    ) -> None:
        super().__init__(authorization)
        self.artifacts, self.broken, self.redirected = artifacts, broken, redirected
        self.experiments: dict[str, str] = {}
        self.runs: list[Document] = []
        self.files: dict[str, bytes] = {}

    def answer(self, _method: str, path: str, body: bytes) -> Answer:
        if self.broken and self.broken in path:
            return 500, {"error_code": "INTERNAL_ERROR", "message": "the disk is full"}
        if self.redirected and self.redirected in path:
            return 302, None
        if path.startswith(ARTIFACTS):
            self.files[path.removeprefix(ARTIFACTS)] = body
            return 200, None
        endpoints = {
            "experiments/get-by-name": self._find,
            "experiments/create": self._create_experiment,
            "runs/create": self._create_run,
            "runs/log-batch": self._log,
            "runs/update": self._update,
        }
        try:
            return 200, endpoints[path.removeprefix(API)](json.loads(body))
        except KeyError as error:
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"no {error}"}

    def _find(self, sent: Document) -> Document:
        return {"experiment": {"experiment_id": self.experiments[sent["experiment_name"]]}}

    def _create_experiment(self, sent: Document) -> Document:
        self.experiments[sent["name"]] = str(len(self.experiments) + 1)
        return {"experiment_id": self.experiments[sent["name"]]}

    def _create_run(self, sent: Document) -> Document:
        if sent["experiment_id"] not in self.experiments.values():
            raise KeyError(sent["experiment_id"])
        run_id = f"run{len(self.runs)}"
        self.runs.append({**sent, "tags": _values(sent, "tags"), "params": {}, "metrics": {}, "status": "RUNNING"})
        uri = f"{self.artifacts}/{sent['experiment_id']}/{run_id}/artifacts"
        return {"run": {"info": {"run_id": run_id, "artifact_uri": uri}}}

    def _run(self, sent: Document) -> Document:
        return {f"run{number}": run for number, run in enumerate(self.runs)}[sent["run_id"]]

    def _log(self, sent: Document) -> Document:
        for kind in ("params", "metrics"):
            self._run(sent)[kind] |= _values(sent, kind)
        return {}

    def _update(self, sent: Document) -> Document:
        self._run(sent).update(status=sent["status"], end_time=sent["end_time"])
        return {"run_info": {}}


def _values(sent: Document, kind: str) -> Document:
    entries = sent.get(kind, [])
    assert len(entries) <= MOST[kind]
    assert all(len(str(each["value"])) <= LONGEST for each in entries)
    return {each["key"]: each["value"] for each in entries}


def mlflow_server(**how: str) -> AbstractContextManager[MlflowServer]:
    """One on loopback."""
    return running(MlflowServer(**how))
