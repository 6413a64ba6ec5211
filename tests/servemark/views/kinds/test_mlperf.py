"""An MLPerf run: LoadGen's percentiles above ours, and what is invalid with its remedy."""

import copy
from typing import Any

from servemark.results.saved import Saved
from tests.support.rendering import shown


def document(saved: dict[str, Saved], **changes: Any) -> dict[str, Any]:
    found = copy.deepcopy(saved["mlperf"].document)
    found["loadgen"] = {
        "version": "5.1",
        "50.00_percentile_latency_ns": 1_500_000,
        "99.00_percentile_latency_ns": 12_345_678,
        "completed_samples_per_sec": 123.456,
    }
    found["plan"] |= {"expected_qps": 300.0, "latency_ms": 15.0, "percentile": 99.0, "bound_from": "--slo"}
    return found | changes


def test_both_sides_stand_below_each_other(saved: dict[str, Saved]) -> None:
    lines = shown(document(saved)).splitlines()
    assert lines[0] == "MLPerf Server, completed samples per sec 123.5, VALID"
    assert lines[1] == "bound: p99 within 15 ms, --slo; asked 300/s"
    assert lines[2].endswith("MLPerf Server, LoadGen 5.1")
    assert lines[4].split() == ["LoadGen", "1.50", "-", "-", "12.35", "-"]
    assert lines[5].split()[0] == "servemark"
    assert "Result is : VALID; objective MET" in lines


def test_what_failed_has_its_remedy(saved: dict[str, Saved]) -> None:
    found = document(saved)
    broken = {"name": "error_rate", "ok": False, "value": None, "limit": None, "unit": "", "remedy": "see the errors"}
    text = shown(found | {"verdict": {**found["verdict"], "valid": False, "constraints": [broken]}})
    assert "Result is : INVALID" in text
    assert f"  {'error_rate':<20} No \n  {'':<20} -> see the errors" in text
