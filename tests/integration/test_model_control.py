"""Nobody but servemark has a Triton of ours load or unload a model: whoever may load one may run code.

What servemark has it load anew is what two results then differ in, whatever they were measured over.
"""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from loadgen.kserve.control import Control
from loadgen.kserve.grpc_control import GrpcControl
from servemark.compare.saved.saved_runs import differing
from servemark.results.served_config import recorded
from servers import Server, open_server
from servers.launch.server import load_model, unload_model
from tests.support.results import histogram_of, latencies, result_of
from tests.support.small_models import affine
from tests.support.triton import START_S, triton_only

pytestmark = triton_only

MODEL = "affine_onnxruntime"
CONFIG = json.dumps(
    {
        "backend": "python",
        "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [1]}],
        "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [1]}],
    }
)
BROWSER = {"Content-Type": "text/plain", "Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
"""Headers that a page's `fetch(url, {method: "POST", mode: "no-cors"})` sends without asking first."""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's, in a repository with another folder that nobody asks for."""
    root = tmp_path_factory.mktemp("model_repo")
    (root / "other" / "1").mkdir(parents=True)
    return affine(root, "onnxruntime", queue_delay_us=100).parents[1] / "config.pbtxt"


@pytest.fixture(scope="module", params=[False, True], ids=["fixed", "reloadable"])
def server(request: pytest.FixtureRequest, config: Path) -> Iterator[Server]:
    root = config.parents[1]
    with open_server("embedded", root, [MODEL], start_timeout_s=START_S, reloadable=request.param) as server:
        yield server


def code(marker: Path) -> bytes:
    """A model that leaves a file behind when it is loaded."""
    return f"open({str(marker)!r}, 'w')\nclass TritonPythonModel:\n    def execute(self, _): return []\n".encode()


def ready(server: Server) -> bool:
    return requests.get(f"http://{server.http}/v2/models/{MODEL}/ready", timeout=10).ok


def test_a_web_page_runs_no_code(server: Server, tmp_path: Path) -> None:
    files = {"config": CONFIG, "file:1/model.py": base64.b64encode(code(tmp_path / "ran")).decode()}
    for body, path in (({"parameters": files}, "evil/load"), ({}, f"{MODEL}/unload")):
        url = f"http://{server.http}/v2/repository/models/{path}"
        answer = requests.post(url, json.dumps(body), headers=BROWSER, timeout=60)
        assert answer.status_code in {403, 503}, answer.text
        assert "restricted" in answer.text or "not allowed" in answer.text
    assert not (tmp_path / "ran").exists()
    assert ready(server)


def test_a_grpc_client_runs_no_code(server: Server, tmp_path: Path) -> None:
    calls: list[Callable[[Any], Any]] = [
        lambda client: client.load_model("evil", config=CONFIG, files={"file:1/model.py": code(tmp_path / "ran")}),
        lambda client: client.unload_model(MODEL),
        lambda client: client.update_log_settings({"log_verbose_level": 4}),
        lambda client: client.update_trace_settings(settings={"trace_level": ["TENSORS"]}),
    ]
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        for call in calls:
            with pytest.raises(InferenceServerException, match=r"restricted|not allowed"):
                call(client)
    assert not (tmp_path / "ran").exists()
    assert ready(server)


@pytest.mark.parametrize(
    ("path", "settings"),
    [("logging", {"log_verbose_level": 4}), ("trace/setting", {"trace_level": ["TENSORS"], "trace_rate": "1"})],
)
def test_nobody_turns_on_logs_and_traces(server: Server, path: str, settings: dict[str, Any]) -> None:
    answer = requests.post(f"http://{server.http}/v2/{path}", json.dumps(settings), headers=BROWSER, timeout=10)
    assert answer.status_code == 403
    assert "restricted" in answer.text


def test_only_the_models_named_are_served(server: Server) -> None:
    index = requests.post(f"http://{server.http}/v2/repository/index", headers=server.key, timeout=10).json()
    assert [entry["name"] for entry in index] == [MODEL]


@pytest.mark.parametrize("server", [True], indirect=True, ids=["reloadable"])
def test_servemark_itself_reloads_a_reloadable_one_and_an_edit_is_all_that_differs(
    server: Server, config: Path
) -> None:
    over = [Control(f"http://{server.http}"), GrpcControl(f"grpc://{server.grpc}")]
    before = [result(control) for control in over]
    unload_model(server, MODEL)
    assert not ready(server)
    config.write_text(config.read_text().replace("max_queue_delay_microseconds: 100", "preserve_ordering: true"))
    load_model(server, MODEL, START_S)
    assert ready(server)
    after = [result(control) for control in over]
    assert differing(*before) == differing(*after) == []
    edited = [
        {"key": "model_config.dynamic_batching.max_queue_delay_microseconds", "a": 100, "b": None},
        {"key": "model_config.dynamic_batching.preserve_ordering", "a": None, "b": True},
    ]
    assert differing(before[0], after[1]) == differing(before[1], after[0]) == edited
    assert before[0]["model_config_sha256"] == before[1]["model_config_sha256"] != after[0]["model_config_sha256"]


def result(control: Control) -> Any:
    config, digest = recorded(control.placement(MODEL).model_config, "")
    return result_of(histogram_of(latencies(5)), model_config=config, model_config_sha256=digest)
