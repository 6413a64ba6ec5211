"""The search for the highest rate on the terminal: the answer, every rate tried, and the run that stands for it."""

from typing import Any

from tests.support.measured import evenly, load_result
from tests.support.rendering import shown


def test_the_answer_comes_first_and_then_the_rates_in_their_order() -> None:
    flags = ("--request-rate", "40", "--duration", "10", "--warmup", "1", "--slo", "p90:50")
    lost = {"valid": False, "met": False, "bottleneck": "server"}
    points = [
        {"rate": 480.0, "latency_ms": 12.5, "failed": ["achieved_rate"], "objective": "missed", **lost},
        {"rate": 320.0, "latency_ms": None, "failed": [], "objective": "met", "valid": True, "met": True},
    ]
    result = load_result(flags, evenly(40, 11, 0.02))
    found: dict[str, Any] = {"points": points, "rate": 320.0, "ci95": [310.2, 331.0], "bottleneck": "server"}
    found |= {"reason": "met in 1 of 1 runs at 320/s"}
    text = shown(result | {"max_rate": found})
    lines = text.splitlines()
    assert lines[0] == (
        "highest rate with p90:50: 320 requests/s (95 % interval 310.2 to 331); met in 1 of 1 runs at 320/s"
    )
    assert lines[1].startswith("ranking_tiny on onnxruntime")
    rows = [line.split() for line in lines[2:5]]
    assert rows == [
        ["run", "requests/s", "p90", "ms", "verdict", "rate"],
        ["2", "320", "-", "VALID,", "MET", "met"],
        ["1", "480", "12.50", "INVALID", "(achieved_rate),", "MISSED", "not", "met:", "server"],
    ]
    assert lines[5] == "The run that stands for it"
    assert lines[6].startswith("asked 40/s, scheduled 40/s, all answered, goodput 40/s: ")
    found |= {"ci95": [320.0, None], "reason": "at higher rates the generator was late"}
    least = shown(result | {"max_rate": found})
    assert least.startswith(
        "highest rate with p90:50: at least 320 requests/s; at higher rates the generator was late\n"
    )
    found |= {"rate": None, "ci95": None, "reason": "not met at 8/s"}
    none = shown(result | {"max_rate": found})
    assert none.startswith("highest rate with p90:50: none; not met at 8/s\n")
    assert "\nThe run at the lowest rate\n" in none
    found |= {"bottleneck": "other work", "reason": "no rate was met by more than one run"}
    nothing_yet = shown(result | {"max_rate": found})
    assert nothing_yet.startswith("highest rate with p90:50: no rate to quote yet; no rate was met by more than one")
