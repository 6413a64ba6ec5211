"""A cold start of a real Triton: its time to load is known, and its first request is the load's."""

import json
from pathlib import Path

from servemark.figures.registry import value_of
from tests.support.command_line import Servemark
from tests.support.exporting import Exports
from tests.support.locust_run import accounted
from tests.support.triton import triton_only

pytestmark = triton_only


def test_a_triton_is_started_for_the_run(servemark: Servemark, exported: Exports, tmp_path: Path) -> None:
    repository = exported("ranking_tiny", "onnxruntime").folder.parent
    flags = ["--cold-start", "--request-rate", "60", "--duration", "1.5", "--slo", "cold-start:60s", "--json"]
    flags += ["--model-repository", str(repository), "--out", str(tmp_path)]
    _, out, _ = servemark("run", "ranking_tiny", *flags)
    result = json.loads(out)
    cold = result["cold_start"]
    assert cold["load_s"] > 0.05
    assert cold["waited_s"] > 0
    assert cold["first_answer_ms"] > 0
    assert "fewer than 12 whole seconds" in cold["steady_after_s_reason"]
    assert result["verdict"]["objective"] == "undecided"
    assert (result["scenario"]["warmup_s"], value_of(result, "generator.requests_outside_interval")) == (0, 0)
    assert result["engine"] == "onnxruntime"
    assert accounted(result) > 0
