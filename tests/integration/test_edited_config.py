"""An edit of config.pbtxt, as Triton takes it, is what two results differ in, whatever they were measured over."""

from pathlib import Path
from typing import Any

from loadgen.kserve.control import Control
from loadgen.kserve.grpc_control import GrpcControl
from servemark.compare.saved.saved_runs import differing
from servemark.results.served_config import recorded
from servers import open_server
from servers.launch.reloading import load_model, unload_model
from tests.support.results import histogram_of, latencies, result_of
from tests.support.small_models import affine
from tests.support.triton import START_S, triton_only

pytestmark = triton_only

MODEL = "affine_onnxruntime"


def test_an_edit_is_all_that_differs(tmp_path: Path) -> None:
    config = affine(tmp_path, "onnxruntime", queue_delay_us=100).parents[1] / "config.pbtxt"
    with open_server("embedded", tmp_path, [MODEL], start_timeout_s=START_S, reloadable=True) as server:
        over = [Control(f"http://{server.http}"), GrpcControl(f"grpc://{server.grpc}")]
        before = [_result(control) for control in over]
        unload_model(server, MODEL)
        config.write_text(config.read_text().replace("max_queue_delay_microseconds: 100", "preserve_ordering: true"))
        load_model(server, MODEL, START_S)
        after = [_result(control) for control in over]
    assert differing(*before) == differing(*after) == []
    edited = [
        {"key": "model_config.dynamic_batching.max_queue_delay_microseconds", "a": 100, "b": None},
        {"key": "model_config.dynamic_batching.preserve_ordering", "a": None, "b": True},
    ]
    assert differing(before[0], after[1]) == differing(before[1], after[0]) == edited
    assert before[0]["model_config_sha256"] == before[1]["model_config_sha256"] != after[0]["model_config_sha256"]


def _result(control: Control) -> Any:
    config, digest = recorded(control.placement(MODEL).model_config, "")
    return result_of(histogram_of(latencies(5)), model_config=config, model_config_sha256=digest)
