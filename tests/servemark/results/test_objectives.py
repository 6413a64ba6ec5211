"""Objectives: their words, and what is met, missed or undecided."""

import math
from typing import Any

import pytest

from servemark.errors import OptionError
from servemark.results.objectives import (
    ERRORS,
    SERVICE_TIME,
    THROUGHPUT,
    Seen,
    Slo,
    highest_percentile,
    judge_objective,
    latency_objective,
    overall,
    parse_objectives,
    written,
)
from servemark.stats.percentiles import TooLittle

P99 = Slo(99, 20)


@pytest.mark.parametrize(
    ("text", "slo", "canonical"),
    [
        ("p99:20", Slo(99, 20), "p99:20"),
        ("p99=20", Slo(99, 20), "p99:20"),
        (" p99.9 : 20ms ", Slo(99.9, 20), "p99.9:20"),
        ("p50:0.5s", Slo(50, 500), "p50:500"),
        ("p50:250us", Slo(50, 0.25), "p50:0.25"),
        ("service_p99:15ms", Slo(99, 15, SERVICE_TIME), "service_p99:15"),
        ("errors:0.1%", Slo(0, 0.001, ERRORS), "errors:0.001"),
        ("errors:0", Slo(0, 0, ERRORS), "errors:0"),
        ("throughput:1.5k", Slo(0, 1500, THROUGHPUT), "throughput:1500"),
        ("throughput:900/s", Slo(0, 900, THROUGHPUT), "throughput:900"),
    ],
)
def test_the_words_of_an_objective(text: str, slo: Slo, canonical: str) -> None:
    assert Slo.parse(text) == slo == Slo.parse(canonical)
    assert str(slo) == canonical


@pytest.mark.parametrize("text", ["", "p99", "99:50", "p99:", "p99:fast", "mean:5", "errors:5ms", "p99:-3", "p99:5%"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(OptionError) as error:
        Slo.parse(text)
    assert "--slo" in str(error.value.fix)


def test_several_objectives() -> None:
    found = parse_objectives("p50:5,p99:20ms, service_p99:15,errors:0.1%,throughput:1k")
    assert [slo.name for slo in found] == ["p50", "p99", "service_p99", "errors", "throughput"]
    assert parse_objectives(written(found)) == found
    assert parse_objectives("") == ()
    assert latency_objective(found) == P99
    assert (highest_percentile(found), highest_percentile(found[3:]), latency_objective(found[2:])) == (99, None, None)
    with pytest.raises(OptionError, match="p99 twice"):
        parse_objectives("p99:5,p99:20")


def judged(slo: Slo, value: float | None, *, over: int = 0, requests: int = 2000, **seen: Any) -> Any:
    def longer(times: float | None) -> str:
        return "raise --duration" if times is None else f"raise --duration to {9 * times:.3g} s"

    return judge_objective(Seen(slo, value, over, requests, **seen), longer, "lower --request-rate")


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (judged(P99, 20.0, over=20), "met"),
        (judged(P99, 20.01, over=21), "missed"),
        # Failed requests are among those over the limit, whatever the value of the answered ones.
        (judged(P99, 19.0, over=185, requests=10_000), "missed"),
        (judged(P99, None, over=300, requests=300), "missed"),
        # A p99 needs 1,000 requests, of which 10 may lie over the limit.
        (judged(P99, 15.0, requests=999), "undecided"),
        (judged(P99, 15.0, requests=1000), "met"),
        (judged(P99, 30.0, over=10, requests=300), "undecided"),
        (judged(P99, 300.0, over=11, requests=300), "missed"),
        (judged(P99, None, requests=0), "undecided"),
        (judged(Slo(99, 15, SERVICE_TIME), 14.0), "met"),
        (judged(Slo(0, 0.001, ERRORS), 0.001), "met"),
        (judged(Slo(0, 0.001, ERRORS), 0.002), "missed"),
        (judged(Slo(0, 0.001, ERRORS), None), "undecided"),
        (judged(Slo(0, 900, THROUGHPUT), 900.0), "met"),
        (judged(Slo(0, 900, THROUGHPUT), 899.0), "missed"),
        (judged(Slo(0, 900, THROUGHPUT), 899.0, chance=3.0), "met"),
        (judged(Slo(0, 900, THROUGHPUT), 895.0, chance=3.0), "missed"),
    ],
)
def test_what_is_met_missed_or_undecided(found: Any, status: str) -> None:
    assert found["status"] == status
    assert found["remedy"]
    if status == "undecided":
        assert "raise --duration" in found["remedy"]


def test_what_a_run_shows_with_confidence_stands_beside_it() -> None:
    counted = {"confidence": 0.99, "requests": 2000, "over": 20}
    assert judged(P99, 19.0, over=20, bound=19.9)["shown"] == {**counted, "holds": True}
    assert judged(P99, 19.0, over=20, bound=math.inf)["shown"] == {**counted, "holds": False}
    assert judged(P99, 19.0, over=20, no_bound=TooLittle("its tail is short", 4.5))["shown"] == {
        **counted, "holds": None, "holds_reason": "its tail is short",
        "remedy": "raise --duration to 40.5 s, or judge a lower percentile",
    }  # fmt: skip
    assert judged(Slo(0, 900, THROUGHPUT), 900.0)["shown"] is None


def test_several_are_met_where_all_are() -> None:
    met, missed, unknown = judged(P99, 5.0), judged(P99, 50.0, over=30), judged(P99, None, requests=0)
    found = [overall(several) for several in ([], [met, met], [met, unknown], [met, unknown, missed])]
    assert found == [None, "met", "undecided", "missed"]
