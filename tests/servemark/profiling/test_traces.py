"""The files for other viewers hold the whole inference."""

import pytest

from servemark.profiling.traces import chrome, speedscope
from tests.support.profiled import EVENTS, measured


def test_speedscope_s_weights_add_up_to_the_inference() -> None:
    found = speedscope({"onnxruntime": measured().inference})
    [profile] = found["profiles"]
    assert sum(profile["weights"]) == pytest.approx(profile["endValue"]) == pytest.approx(1000.0)
    names = [each["name"] for each in found["shared"]["frames"]]
    assert [names[frame] for frame in profile["samples"][0]] == [
        "before the steps: layer1",
        "layer1",
        "layer1.0",
        "conv (Conv)",
    ]
    assert len(profile["samples"]) == len(profile["weights"])


def test_chrome_s_events_lie_where_the_operators_did() -> None:
    events = chrome({"onnxruntime": measured().inference})["traceEvents"]
    assert [each["ts"] for each in events if each.get("args", {}).get("operator")] == [e.start_us for e in EVENTS]
    assert {each["ph"] for each in events} == {"M", "X"}
