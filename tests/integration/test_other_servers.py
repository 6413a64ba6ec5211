"""Servers that are not Triton: a run by nothing but their word, or a description, whose answers are compared.

docs/reference/servers.md has what was found.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.locust_run import run, the_result
from tests.support.result_checks import check_schema
from tests.support.served_elsewhere import MODEL, PEERS, serving

pytestmark = [pytest.mark.peer, pytest.mark.slow]

DATA = {"data": [{"x": [1, 2]}, {"x": [3, 4]}], "validation_data": [{"y": [3, 5]}, {"y": [7, 9]}]}


@pytest.fixture(scope="module", params=[name for name, peer in PEERS.items() if peer.kserve_v2])
def urls(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with serving(request.param, tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("batch", ["1", "4"])
def test_a_run(urls: dict[str, str], protocol: str, batch: str, tmp_path: Path) -> None:
    data = tmp_path / "in.json"
    data.write_text(json.dumps(DATA))
    flags = ["--model-name", MODEL, "--url", urls[protocol], "--users", "2", "--duration", "2", "--warmup", "0.5"]
    done = run("any_model", *flags, "--input-data", str(data), "--batch-size", batch, "--out", str(tmp_path))
    assert done.returncode in {0, 2}, done.stderr
    result = the_result(tmp_path)
    check_schema(result)
    agreement = result["metrics"]["correctness"]["output_agreement"]
    assert (result["metrics"]["errors"]["count"], agreement["max_abs_error"]) == (0, 0)
    assert result["metrics"]["latency_ms"]["count"] > 10
    if protocol == "http":
        assert result["resolved"]["input_tensor_format"] == "json"


@pytest.mark.parametrize("name", [name for name, peer in PEERS.items() if peer.endpoint])
def test_a_run_by_a_description_of_the_endpoint(name: str, tmp_path: Path) -> None:
    data, description, endpoint = tmp_path / "in.json", tmp_path / "endpoint.json", PEERS[name].endpoint
    batched = "-1," if endpoint == "kserve-v1" else ""
    data.write_text(json.dumps(DATA))
    description.write_text(json.dumps(endpoint))
    flags = ["--endpoint-type", endpoint if isinstance(endpoint, str) else str(description)]
    flags += ["--input", f"x:FP32:{batched}2", "--output", f"y:FP32:{batched}2", "--model-name", MODEL]
    flags += ["--users", "2", "--duration", "2", "--warmup", "0.5", "--input-data", str(data), "--out", str(tmp_path)]
    folder = tmp_path / "server"
    folder.mkdir()
    with serving(name, folder) as urls:
        done = run("any_model", *flags, "--url", urls["http"])
    assert done.returncode in {0, 2}, done.stderr
    result = the_result(tmp_path)
    check_schema(result)
    agreement = result["metrics"]["correctness"]["output_agreement"]
    assert (result["metrics"]["errors"]["count"], agreement["max_abs_error"]) == (0, 0)
    assert result["metrics"]["latency_ms"]["count"] > 10
