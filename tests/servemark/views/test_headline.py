"""The one line that says what a run found."""

from typing import Any

import pytest

from servemark.views.headline import answer
from tests.support.measured import answered, evenly, load_result

OPEN = ("--request-rate", "40", "--duration", "10", "--warmup", "1", "--request-distribution", "constant")
GOOD = evenly(40, 11, 0.02, first_s=1)
P90 = "p90 20 ms"
ASKED = "asked 40/s, scheduled 40/s, all answered"
GOODPUT = f"{ASKED}, goodput 40/s"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), f"{ASKED}: p95 20 ms, VALID"),
        (("--slo", "p90:50"), f"{GOODPUT}: {P90}, objective 50 ms met, VALID"),
        (("--slo", "p90:5"), f"{ASKED}, goodput 0/s: {P90}, objective 5 ms missed, VALID"),
        (("--slo", "p92:50"), f"{GOODPUT}: p92 20 ms, objective 50 ms met, VALID"),
        (
            ("--slo", "p99.9:50"),
            f"{GOODPUT}: p99.9 not known from 400 of 10,000 requests, objective 50 ms undecided, VALID",
        ),
        (
            ("--slo", "p99:5"),
            f"{ASKED}, goodput 0/s: p99 over 5 ms (400 of 400 requests), objective 5 ms missed, VALID",
        ),
        (
            ("--slo", "p50:5,p90:50ms", "--slo", "service_p90:10,errors:1%", "--slo", "throughput:30"),
            f"{GOODPUT}: {P90}, objective 50 ms met, p50 20 ms, objective 5 ms missed, service p90 20 ms, "
            "objective 10 ms missed, errors 0 %, objective 1 % met, objective 30 requests/s met, VALID",
        ),
        (
            ("--slo", "recovery:5s", "--at", "5:true"),
            f"{ASKED}: p95 20 ms, recovery not known, objective 5 s undecided, VALID",
        ),
        (("--batch-size", "2"), f"{ASKED}, 80 inferences/s: p95 20 ms, VALID"),
    ],
)
def test_what_was_served_how_fast_and_both_answers(flags: tuple[str, ...], words: str) -> None:
    assert answer(load_result((*OPEN, *flags), GOOD)) == words


def test_what_failed_is_named() -> None:
    broken = [answered(1 + n / 40, 0.1, "http_500") for n in range(400)]
    said = answer(load_result((*OPEN, "--slo", "p90:50"), broken))
    load, found = said.split(": ", 1)
    assert load == "asked 40/s, scheduled 40/s, 0 % answered, goodput 0/s"
    assert found.startswith("no request succeeded, objective 50 ms missed, INVALID (achieved_rate, ")


def test_a_mix_has_objectives_of_its_own() -> None:
    result: Any = load_result((*OPEN, "--slo", "p90:50"), GOOD)
    result["mix"] = []
    assert "objectives met, VALID" in answer(result)
