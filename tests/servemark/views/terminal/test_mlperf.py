"""An MLPerf run on the terminal: LoadGen's percentiles above ours, and what is invalid with its remedy."""

from typing import Any

from servemark.views.terminal.mlperf import render_mlperf
from tests.support.rendering import shown


def document(**changes: Any) -> dict[str, Any]:
    latency = {"p50": 1.5, "p90": 2.5, "p95": None, "p99": None, "p99_9": None}
    known = {
        "workload": "resnet50",
        "engine": "onnxruntime",
        "device": "cpu",
        "precision": "fp32",
        "scenario": "Server",
        "plan": {"expected_qps": 300.0, "latency_ms": 15.0, "percentile": 99.0, "bound_from": "--slo"},
        "loadgen": {
            "version": "5.1",
            "50.00_percentile_latency_ns": 1_500_000,
            "99.00_percentile_latency_ns": 12_345_678,
            "completed_samples_per_sec": 123.456,
        },
        "metrics": {"latency_ms": latency, "correctness": {}},
        "verdict": {"valid": True, "constraints": [{"name": "loadgen", "ok": True, "remedy": ""}]},
    }
    return known | changes


def test_both_sides_stand_below_each_other() -> None:
    lines = shown(render_mlperf, document()).splitlines()
    assert lines[0] == "resnet50 on onnxruntime, cpu, fp32  |  MLPerf Server, LoadGen 5.1"
    assert lines[1] == "bound: p99 within 15 ms, --slo; asked 300/s"
    assert lines[2].split() == ["LoadGen", "ms", "p50", "1.5", "p99", "12.35"]
    assert lines[3].split() == ["servemark", "ms", "p50", "1.5", "p90", "2.5"]
    assert "completed samples per sec: 123.46" in lines
    assert lines[-2:] == ["Result is : VALID", f"  {'loadgen':<20} Yes"]


def test_what_failed_has_its_remedy() -> None:
    verdict = {"valid": False, "constraints": [{"name": "error_rate", "ok": False, "remedy": "see the errors"}]}
    text = shown(render_mlperf, document(verdict=verdict))
    assert "Result is : INVALID" in text
    assert f"  {'error_rate':<20} No \n  {'':<20} -> see the errors" in text
