"""A whole result out of outcomes whose figures are known by counting: complete, documented, and consistent."""

import pytest

from loadgen.evaluation.measured_run import histograms
from loadgen.load.load_config import Startup
from servemark.figures.registry import count_of, value_of
from servemark.results import directory as results
from servemark.stats.histogram import Histogram
from tests.support.load_config import config
from tests.support.measured import answered, evenly, load_result, measured, worker_figures
from tests.support.result_checks import check_schema

OPEN = ("--request-rate", "40", "--duration", "10", "--warmup", "1", "--request-distribution", "constant")
GOOD = evenly(40, 11, 0.02)


def test_every_key_is_documented_and_every_null_has_its_reason() -> None:
    for flags, outcomes in ((OPEN, GOOD), (OPEN, []), (("--concurrency", "2"), GOOD), (("--stages", "2:9,3:0"), GOOD)):
        found = load_result(flags, outcomes)
        check_schema(found)
        results.to_json(found)


def test_the_parts_agree_with_each_other() -> None:
    found = load_result((*OPEN, "--slo", "p90:50"), [*GOOD, answered(5, 0.1, "http_500")])
    assert (count_of(found, "requests.answered"), found["details"]["errors"]["by_kind"]) == (400, {"http_500": 1})
    assert count_of(found, "generator.requests_outside_interval") == 40
    assert value_of(found, "throughput.requests") == pytest.approx(40)
    assert value_of(found, "latency.p90") == pytest.approx(20, rel=1e-3)
    assert len(found["windows"]) == 10
    assert sum(w["requests_per_s"] for w in found["windows"]) == pytest.approx(400)
    assert (found["verdict"]["valid"], found["verdict"]["exit_code"], found["partial"]) == (True, 0, False)
    assert found["bottleneck"]["by"] is None
    assert "workers" not in found


def test_a_run_that_was_cut_short_has_the_windows_that_had_begun() -> None:
    found = load_result(OPEN, evenly(40, 4.5, 0.02), measured_s=3.5, interrupted="stopped before its end")
    assert [window["start_s"] for window in found["windows"]] == [0.0, 1.0, 2.0, 3.0]
    assert found["windows"][3]["requests_per_s"] == pytest.approx(40)  # of the half second that it lasted
    assert (found["partial"], found["scenario"]["measured_s"], found["verdict"]["valid"]) == (True, 3.5, False)


COLD = ("--request-rate", "40", "--duration", "12", "--cold-start", "--slo", "cold-start:5")


def test_a_cold_start_has_its_parts_and_no_warm_up() -> None:
    slow = [*evenly(40, 2, 0.3), *evenly(40, 12, 0.02, first_s=2)]
    found = load_result(COLD, slow, startup=Startup(load_s=1.5, ready_ns=-2_000_000_000))
    check_schema(found)
    cold = found["cold_start"]
    assert (cold["percentile"], cold["first_second_ms"]) == ("p50", pytest.approx(300, rel=1e-2))
    assert [cold[key] for key in ("load_s", "waited_s", "first_answer_ms")] == [1.5, 2.0, 300.0]
    assert [cold[key] for key in ("steady_after_s", "cold_start_s", "steady")] == [2.0, 3.5, True]
    assert (found["scenario"]["warmup_s"], len(found["windows"])) == (0.0, 12)
    assert "steady_state" in found["verdict"]["skipped"]
    [objective] = found["verdict"]["objectives"]
    assert [objective[key] for key in ("figure", "value", "unit", "status")] == ["cold-start", 3.5, "s", "met"]
    assert found["verdict"]["exit_code"] == 0


def test_a_cold_start_that_took_too_long_misses_its_objective() -> None:
    slow = [*evenly(40, 4, 0.3), *evenly(40, 12, 0.02, first_s=4)]
    found = load_result(COLD, slow, startup=Startup(load_s=1.5, ready_ns=0))
    assert (found["cold_start"]["cold_start_s"], found["verdict"]["exit_code"]) == (5.5, 4)


def test_a_cold_start_without_answers_has_its_reasons() -> None:
    found = load_result(COLD, [answered(1 + n / 40, 0.1, "http_503") for n in range(80)])
    check_schema(found)
    cold = found["cold_start"]
    assert cold["first_answer_ms_reason"] == "no request was answered"
    assert cold["load_s_reason"] == "the server was not started for this run"
    assert (cold["steady"], found["verdict"]["objectives"][0]["status"]) == (None, "undecided")


def test_stages_have_figures_of_their_own_as_far_as_the_run_came() -> None:
    flags = ("--stages", "2:40,1:0,2:80", "--warmup", "0")
    sent = [*evenly(40, 2, 0.02), *evenly(80, 4, 0.05, first_s=3), answered(3.5, 0.1, "timeout")]
    found = load_result(flags, sent, measured_s=4.0, interrupted="stopped")
    stages = [(s["start_s"], s["scheduled"], count_of(s, "errors.count")) for s in found["stages"]]
    assert stages == [(0, 80, 0), (2, 0, 0), (3, 81, 1)]
    # the answers that came in the one second of its two; the last four came after it
    assert value_of(found["stages"][2], "throughput.requests") == pytest.approx(80)
    assert value_of(found["stages"][2], "latency.p50") == pytest.approx(50, rel=1e-3)


def test_workers_are_listed_and_judged() -> None:
    workers = [worker_figures(index, trouble=trouble) for index, trouble in enumerate((None, "it quit"))]
    found = load_result(OPEN, GOOD, workers=workers)
    assert [worker["trouble"] for worker in found["workers"]] == [None, "it quit"]
    assert value_of(found, "generator.workers") == 2
    assert {c["name"] for c in found["verdict"]["constraints"] if not c["ok"]} == {"workers"}


def test_the_histograms_are_those_of_the_figures() -> None:
    settings = config("ranking_tiny", *OPEN)
    seen = measured(settings, [*GOOD, answered(5, 0.1, late_s=0.04)])
    found = {name: Histogram.decode(text) for name, text in histograms(settings, seen.recorder).items()}
    assert found.keys() == {"latency_us", "service_time_us", "schedule_delay_us"}
    assert {histogram.count for histogram in found.values()} == {401}
    maxima = [round(found[f"{name}_us"].percentile(100)) for name in ("latency", "service_time", "schedule_delay")]
    assert maxima == [100, 60, 40]
    none_answered = measured(settings, [answered(5, 0.1, "http_500")])
    assert histograms(settings, none_answered.recorder).keys() == found.keys()
