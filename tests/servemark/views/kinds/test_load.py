"""A load result on the terminal: each figure where a reader looks for it, and nothing made up where there is none."""

import re
from typing import Any

import pytest

from loadgen.load.order import Startup
from loadgen.load.warm_up import WarmUpOutcome
from servemark.output import EVERYTHING, SAYS
from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.views.kinds.load import records
from servemark.views.render.html import page
from tests.support.measured import answered, evenly, load_result, worker_figures
from tests.support.rendering import shown

OPEN = ("--request-rate", "40", "--duration", "10", "--warmup", "1", "--request-distribution", "constant")
CLOSED = ("--concurrency", "2", "--duration", "10", "--warmup", "1")
GOOD = evenly(40, 11, 0.02, first_s=1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.0001234, "0.00012"),
        (0.01234, "0.012"),
        (0.5, "0.500"),
        (2.0, "2"),
        (12.345, "12.35"),
        (123.456, "123.5"),
        (1234.5, "1,234"),
        (-0.25, "-0.250"),
    ],
)
def test_figures_have_three_digits_or_more_where_they_are_large(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_an_open_loop_shows_three_latencies_and_its_verdict() -> None:
    text = shown(load_result((*OPEN, "--slo", "p90:50"), [*GOOD, answered(5, 0.1, "http_500")]))
    first = "asked 40/s, scheduled 40.10/s, 99.75 % answered, goodput 40/s: p90 20 ms, objective 50 ms met, VALID\n"
    # The precision is known where the model is exported.
    assert re.match(rf"{re.escape(first)}ranking_tiny on onnxruntime, cpu, (fp32, )?http  \|  ", text)
    assert re.search(r"^ms +mean +p50 +p90 +p95 +p99 +p99\.9 +max$", text, re.MULTILINE)
    for name, value in (("latency", "20"), ("service time", "20"), ("schedule delay", "0")):
        assert re.search(rf"^{name} +{value} +{value} +{value} +{value} +- +- +{value}$", text, re.MULTILINE)
    assert "\n400 succeeded, 1 failed (http_500 1; first: said http_500)" in text
    assert "\nof the answered requests alone: p50 20, p90 20, p95 20 ms\n" in text
    assert "with 99% confidence: p50 <= 20 ms" in text
    assert "energy" not in text
    assert "outputs: not checked (no golden outputs in ranking_tiny_onnxruntime" in text
    assert "Result is : VALID; objective MET\n  10 of 10 constraints hold" in text
    assert "error_rate" not in text
    assert re.search(r"^  p90:50 +MET  20 \(limit 50 ms\)$", text, re.MULTILINE)
    assert "kept with 99% confidence: not known (1 of 401 requests over or failed; only about 40 requests lie" in text
    assert "->" not in text


def test_what_failed_has_its_remedy_and_what_is_not_judged_its_reason() -> None:
    text = shown(load_result((*CLOSED, "--slo", "p90:15"), GOOD[:30], interrupted="stopped", measured_s=9.5))
    assert "\nservice time" not in text
    assert "Result is : INVALID" in text
    assert re.search(r"^  completed +No .*\n +-> stopped; let the run end by itself", text, re.MULTILINE)
    assert re.search(r"^  p90:15 +MISSED  20 \(limit 15 ms\)\n +-> over the objective", text, re.MULTILINE)
    assert re.search(r"^  steady_state +- +not judged: the run was cut short$", text, re.MULTILINE)
    few = "needs 6 windows with requests, has 1; let the run go on to about 63 s, or judge a lower percentile)"
    assert f"confidence: not known (30 of 30 requests over or failed; {few}" in text


def test_a_figure_at_its_limit_does_not_look_like_it() -> None:
    result = load_result(OPEN, GOOD)
    steady = next(c for c in result["verdict"]["constraints"] if c["name"] == "steady_state")
    steady |= {"ok": False, "value": 1.10004, "limit": 1.1}
    assert "No   1.10004 (limit 1.10 " in shown(result)


def test_a_cold_start_shows_its_parts_and_the_reason_of_one_that_is_not_known() -> None:
    flags = ("--request-rate", "40", "--duration", "12", "--cold-start", "--slo", "cold-start:5")
    slow = [*evenly(40, 2, 0.3), *evenly(40, 12, 0.02, first_s=2)]
    known = load_result(flags, slow, startup=Startup(load_s=1.5, ready_ns=-2_000_000_000))
    text = shown(known)
    assert "cold-start 3.50 s, objective 5 s met" in text
    head = " +".join(["load s", "first answer ms", "first p50 ms", "last p50 ms"])
    assert re.search(rf"^ *{head} +steady after s +cold start s\n +1.50 +300 +30. +20 +2 +3.50$", text, re.MULTILINE)
    assert "reason" not in text
    assert "steady</text>" in page("x", [Saved("x", known)])
    assert records(Saved("x", known))[0]["cold_start_steady_after_s"] == 2
    short = shown(load_result((*flags, "--duration", "5"), slow[:200]))
    assert "\nload_s: the server was not started for this run\nsteady_after_s: fewer than 12 whole seconds" in short
    assert records(Saved("x", load_result(OPEN, GOOD)))[0]["cold_start_s"] is None


def outputs(**values: float | None) -> dict[str, Any]:
    """Figures of the agreement with golden answers."""
    return {f"outputs.{name}": {"value": value, "unit": ""} for name, value in values.items()}


def test_prolonged_intervals_workers_and_servers_are_told() -> None:
    clocks = (("a", 0.2), ("b", 0.4), ("a", 0.1))
    workers = [worker_figures(n, host=host, clock_ms=clock) for n, (host, clock) in enumerate(clocks)]
    result = load_result(CLOSED, GOOD, workers=workers, measured_s=16.25)
    text = shown(result)
    assert "10 s prolonged to 16.2 s" in text
    assert "workers: 3 (2 on a, 1 on b), clocks known to 0.4 ms" in text
    assert "server: " not in text
    spent = {"queue": 1.5, "compute_input": 0.25, "compute_infer": 12.0, "compute_output": 0.125, "batch_size": 3.5}
    result["figures"] |= {f"server.{name}": {"value": value, "unit": "ms"} for name, value in spent.items()}
    assert "queue 1.50 + input 0.250 + infer 12 + output 0.125 ms; mean executed batch 3.50" in shown(result)


def test_checked_outputs_and_joules_are_shown_with_their_bounds() -> None:
    result = load_result(OPEN, GOOD)
    result["figures"] |= outputs(checked=50, max_abs_error=1.5e-6, cosine_min=0.999, top1_agreement=0.98)
    result["figures"] |= outputs(samples=16, top1_samples=15)
    result["details"]["outputs"] = {"tolerance": {"atol": 1e-4, "rtol": 1e-3}, "weights": "random"}
    result["figures"]["energy.per_inference"] = {"value": 0.01234, "unit": "J"}
    result["details"]["energy"]["boundary"] = "cpu_package"
    text = shown(result)
    assert "outputs: 50 answers checked, max error 1.5e-06, top-1 15 of 16\n" in text
    assert "energy: 0.0123 J/inference (cpu_package)" in text
    result["figures"] |= outputs(max_abs_error=None, cosine_min=None)
    result["details"]["outputs"]["tolerance"] = {"min_match": 0.5}
    result["precision"] = "int8"
    text = shown(result)
    assert "top-1 15 of 16 (at least 50% of all values); random weights: agreement with fp32, no accuracy" in text
    result["details"]["outputs"]["tolerance"] = {"min_cosine": 0.9, "max_spread_error": 0.447}
    result["figures"] |= outputs(cosine_min=1.0, spread_error_max=1.77)
    assert "cosine 1.0000 (at least 0.9), error 1.8 of the spread (at most 0.447), top-1 15 of 16" in shown(result)
    result["figures"] |= outputs(cosine_min=None, samples=None)
    result["details"]["outputs"] = {}
    assert "50 answers checked, top-1 98%\n" in shown(result)  # a result of an earlier version


def test_what_limited_is_told_with_its_evidence() -> None:
    result = load_result(OPEN, GOOD)
    assert "limited by: nothing (kept up with the schedule)" in shown(result)
    result["bottleneck"] = {"by": None, "evidence": "not known: no request succeeded"}
    assert "limited by: not known (no request succeeded)" in shown(result)
    result["bottleneck"] = {"by": "server", "evidence": "queue 80 ms of 100 ms service time"}
    assert "limited by: server (queue 80 ms of 100 ms service time)" in shown(result)


def test_a_warm_up_that_ends_by_itself_says_how_long_it_took_and_whether_it_found_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags = (*OPEN[:4], "--warmup", "auto")
    sent = evenly(40, 20, 0.02, first_s=10)
    found = load_result(flags, sent, warmed=WarmUpOutcome(2.15, True, 0.25, None))
    assert found["scenario"]["warmup_s"] == 2.15
    text = shown(found)
    assert "batch 1, 10 s after 2.1 s of warm-up\n" in text
    assert "warm-up:" not in text
    never = load_result(
        flags, sent, warmed=WarmUpOutcome(10.0, False, None, "the latency was not steady by MSER within 10 s")
    )
    assert "\nwarm-up: the latency was not steady by MSER within 10 s; --warmup S sets another\n" in shown(never)
    cut = load_result(flags, [], measured_s=0.0, interrupted="stopped")
    assert (cut["scenario"]["warmup_s"], cut["scenario"]["warmup"]["steady"]) == (None, None)
    assert "warm-up" not in shown(cut)
    monkeypatch.setenv(SAYS, EVERYTHING)
    assert "\nwarm-up: 2.1 s, steady after 0.25 s (MSER)\n" in shown(found)


def test_nothing_is_left_out_where_everything_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    result = load_result(OPEN, GOOD)
    result["figures"] |= outputs(checked=50, max_abs_error=1e-7, cosine_min=1.0, top1_agreement=1.0)
    assert "outputs: 50 answers checked, all agree\n" in shown(result)
    differs = {"name": "output_agreement", "ok": False, "value": 50, "limit": 1, "unit": "", "remedy": "'Y' is off"}
    wrong: Any = {**result, "verdict": {**result["verdict"], "constraints": [differs]}}
    assert "outputs: 50 answers checked, max error 1e-07, top-1 100%\n" in shown(wrong)
    monkeypatch.setenv(SAYS, EVERYTHING)
    text = shown(result)
    assert "40 requests/s, 40 inferences/s; 400 succeeded, 0 failed" in text
    assert "energy: not known (no meter)" in text
    assert "50 answers checked, max error 1e-07, top-1 100%" in text
    assert re.search(r"^  error_rate +Yes  0 \(limit 0.010 share\)$", text, re.MULTILINE)
    assert "constraints hold (-v" not in text
