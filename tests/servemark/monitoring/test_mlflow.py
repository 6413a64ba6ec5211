"""Runs sent to an MLflow server: a double of its REST API keeps what it is sent, and refuses what MLflow refuses."""

from dataclasses import replace
from typing import Any

import pytest

from servemark.errors import ServerError
from servemark.monitoring.mlflow import Mlflow, TrackedRun
from tests.support.mlflow_server import mlflow_server

RUN = TrackedRun(
    name="a",
    time_ms=1_000,
    params={"load.rate": "40"},
    metrics={"latency_p99_ms": 2.5},
    tags={"valid": "true"},
    files={"report.html": b"<p>", "result.json": b"{}"},
)


def test_a_run_has_all_that_it_is_given() -> None:
    with mlflow_server() as server:
        assert Mlflow(server.url, {}).add(RUN) == f"{server.url}/#/experiments/1/runs/run0"
    [run] = server.runs
    assert server.experiments == {"servemark": "1"}
    assert (run["run_name"], run["start_time"], run["end_time"], run["status"]) == ("a", 1000, 1000, "FINISHED")
    assert (run["params"], run["metrics"], run["tags"]) == (RUN.params, RUN.metrics, RUN.tags)
    assert server.files == {f"1/run0/artifacts/{name}": content for name, content in RUN.files.items()}


def test_parts_are_runs_below_it_in_the_experiment_that_the_variable_names() -> None:
    with mlflow_server() as server:
        server.experiments["other"] = "1"
        variables = {"MLFLOW_EXPERIMENT_NAME": "mine & yours"}
        for _ in range(2):
            Mlflow(f"{server.url}/", variables).add(replace(RUN, files={}, parts=[replace(RUN, files={}, name="b")]))
    assert server.experiments == {"other": "1", "mine & yours": "2"}
    assert [(run["run_name"], run["tags"].get("mlflow.parentRunId")) for run in server.runs] == [
        *[("a", None), ("b", "run0")],
        *[("a", None), ("b", "run2")],
    ]


def test_many_and_long_values_fit_into_the_limits() -> None:
    params = {f"p{number}": "x" * 9_000 for number in range(250)}
    metrics = {f"m{number}": float(number) for number in range(2_001)}
    with mlflow_server() as server:
        Mlflow(server.url, {}).add(replace(RUN, params=params, metrics=metrics, tags={"words": "y" * 9_000}))
    assert (server.runs[0]["params"].keys(), server.runs[0]["metrics"]) == (params.keys(), metrics)


@pytest.mark.parametrize(
    ("variables", "authorization"),
    [
        ({"MLFLOW_TRACKING_TOKEN": "secret"}, "Bearer secret"),
        ({"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "p"}, "Basic dTpw"),
    ],
)
def test_credentials_come_from_mlflow_s_variables(variables: dict[str, str], authorization: str) -> None:
    with mlflow_server(authorization=authorization) as server:
        assert Mlflow(server.url, variables).add(RUN)
        with pytest.raises(ServerError, match=r"401 Unauthorized\n  fix: set MLFLOW_TRACKING_TOKEN"):
            Mlflow(server.url, {"MLFLOW_TRACKING_TOKEN": "other"})


@pytest.mark.parametrize(
    ("faulty", "words"),
    [
        ({"broken": "log-batch"}, "500 the disk is full"),
        ({"broken": "mlflow-artifacts"}, "500 the disk is full"),
        ({"artifacts": "s3://bucket"}, r"s3://bucket.*none itself"),
        ({"redirected": "mlflow-artifacts"}, r"refused PUT .* 302"),  # which has taken nothing
    ],
)
def test_a_run_that_could_not_be_sent_is_marked(faulty: dict[str, Any], words: str) -> None:
    with mlflow_server(**faulty) as server, pytest.raises(ServerError, match=words):
        Mlflow(server.url, {}).add(RUN)
    assert [run["status"] for run in server.runs] == ["FAILED"]


def test_another_server_is_told_apart() -> None:
    with mlflow_server() as server:
        url = f"{server.url}/api/2.0/mlflow-artifacts/artifacts"  # answers everything with nothing
        with pytest.raises(ServerError, match=r"cannot be read: no 'experiment_id'\n  fix: give the URL of an MLflow"):
            Mlflow(url, {})
    with pytest.raises(ServerError, match=r"no MLflow answers at .*: Connection refused"):
        Mlflow(server.url, {})
