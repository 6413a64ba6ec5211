"""A mix on the terminal: the whole, then each workload in a row."""

from typing import Any

from tests.support.measured import evenly, load_result
from tests.support.rendering import shown

FLAGS = ("--request-rate", "40", "--duration", "10", "--warmup", "1")


def test_each_workload_has_its_share_and_its_figures() -> None:
    whole = load_result(FLAGS, evenly(40, 11, 0.02))
    quiet = load_result(FLAGS, [], measured_s=0.0, interrupted="stopped")
    parts: list[Any] = [whole | {"workload": "a", "share": 0.75}, quiet | {"workload": "b", "share": 0.25}]
    text = shown(whole | {"mix": parts})
    assert "VALID\nranking_tiny on " in text
    rows = [line.split() for line in text.splitlines()[-2:]]
    assert rows[0] == ["a", "75.0%", "40", "20", "20", "-", "0", "VALID"]
    assert rows[1] == [
        "b",
        "25.0%",
        "-",
        "-",
        "-",
        "-",
        "0",
        "INVALID",
        "(completed,",
        "enough_samples,",
        "error_rate)",
    ]  # nothing of it was measured
