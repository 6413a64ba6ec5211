"""A queue delay through a real Triton: each request's wait for its batch is seen, over both protocols, and named."""

import shutil
from pathlib import Path

import pytest

from servemark.results.directory import read_run
from tests.support.command_line import Servemark
from tests.support.exporting import Exports
from tests.support.triton import triton_only

pytestmark = triton_only
TINY = "ranking_tiny"
DELAY_MS = 100
LOAD = ["--request-rate", "40", "--request-distribution", "constant", "--duration", "4", "--warmup", "0.5"]


@pytest.mark.slow  # it needs a quiet machine: other work may be the larger cause
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_queue_delay_is_named(protocol: str, exported: Exports, servemark: Servemark, tmp_path: Path) -> None:
    exported(TINY, "onnxruntime")
    shutil.copytree(exported.repository / f"{TINY}_onnxruntime", tmp_path / "models" / f"{TINY}_onnxruntime")
    config = tmp_path / "models" / f"{TINY}_onnxruntime" / "config.pbtxt"
    delay = f"max_queue_delay_microseconds: {1000 * DELAY_MS}"
    config.write_text(config.read_text().replace("# max_queue_delay_microseconds: 500", delay))
    out = tmp_path / "out"
    servemark(
        *("explain", TINY, *LOAD, "--protocol", protocol, "--out", str(out)),
        *("--model-repository", str(tmp_path / "models")),
    )
    [folder] = out.iterdir()
    found = read_run(folder).get("explanation")
    assert found is not None
    assert found["traced"], found["note"]
    assert found["cause"] == "batch_fill", found["sentence"]
    parts = {part["cause"]: part["tail_ms"] for part in found["parts"]}
    assert parts["batch_fill"] == pytest.approx(DELAY_MS, rel=0.2)
    assert found["queueing"] is not None
    assert found["queueing"]["batch_mean"] > 2
    assert found["fixes"][0]["settings"] == {"queue_delay_us": 0}
