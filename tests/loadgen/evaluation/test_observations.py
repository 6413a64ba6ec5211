"""Observations for the verdict, from outcomes whose figures are known by counting."""

from typing import Any

import pytest

from loadgen.evaluation.observations import observe
from loadgen.sut.channel import Outcome
from loadgen.sut.kernel_clock import KernelClock
from servemark.figures.value import COUNT, MS, Figures, Value
from servemark.results.constraints import Observations
from tests.support.load_config import config
from tests.support.measured import answered, evenly, measured, worker_figures

OPEN = ("--request-rate", "10", "--duration", "10", "--warmup", "1")
CLOSED = ("--concurrency", "2", "--duration", "10", "--warmup", "1")


def observed(
    flags: tuple[str, ...], outcomes: list[Outcome], figures: Figures | None = None, **seen: Any
) -> Observations:
    settings = config("ranking_tiny", *flags)
    return observe(settings, measured(settings, outcomes, **seen), None, figures or {})


def test_requests_are_counted_where_they_were_scheduled_and_their_growth_at_the_edges() -> None:
    outcomes = [
        *(answered(0.9, 0.3), answered(0.95, 0.2)),  # of the warm-up, answered in the interval, which begins at 1 s
        *evenly(10, 10, 0.02, first_s=1),
        *(answered(5, 30, "timeout"), answered(6, 0.1, "http_500")),
        *(answered(10.9, 0.5), answered(10.95, 0.5), answered(10.99, 0.5)),  # in flight when it ends, at 11 s
        answered(11.5, 0.01),
    ]
    flags = ("--slo", "p90:50,service_p50:600,errors:0.1,throughput:5", "--max-error-rate", "0.5")
    found = observed((*OPEN, *flags), outcomes)
    assert (found.requests, found.errors, found.timeouts, found.max_error_rate) == (95, 2, 1, 0.5)
    assert found.unfinished_growth == 3 - 2
    assert found.in_flight_edges == 3 + 2
    assert [str(seen.slo) for seen in found.objectives] == flags[1].split(",")
    assert [seen.value for seen in found.objectives] == pytest.approx([20, 20, 2 / 95, 9.2], rel=1e-2)
    assert [(seen.over, seen.requests) for seen in found.objectives[:2]] == [(5, 95), (2, 95)]
    assert found.latency_p99_ms == pytest.approx(500, rel=1e-3)
    assert (found.open_loop, found.skipped, found.workers) == (True, {}, 0)


def test_any_figure_may_be_an_objective_and_is_unknown_for_its_own_reason() -> None:
    slo = "server.queue:2ms,sequence.broken:1,energy.power:5"
    known = {"server.queue": Value(3.0).to_dict(MS), "sequence.broken": Value.unknown("why").to_dict(COUNT)}
    found = observed((*OPEN, "--slo", slo), [], known).objectives
    assert [(seen.value, seen.unknown) for seen in found] == [
        (3.0, ""),
        (None, "why"),
        (None, "the run has no such figure"),
    ]


def test_an_empty_interval_is_observed_too() -> None:
    found = observed((*OPEN, "--slo", "p90:50"), [])
    assert (found.requests, found.latency_p99_ms, found.objectives[0].value) == (0, 0.0, None)
    assert {window.p50_ms for window in found.windows} == {None}


@pytest.mark.parametrize(
    ("flags", "seen", "constraint", "reason"),
    [
        (CLOSED, {"interrupted": "stopped"}, "steady_state", "the run was cut short"),
        (("--arrival-trace", "{trace}"), {}, "steady_state", "the rate of a trace changes by itself"),
        (("--stages", "2:10,3.4:20"), {}, "steady_state", "no stage keeps one rate for 3.5 s or more"),
        (OPEN, {"cpu_utilization": None}, "client_cpu", "cut short before its measured interval began"),
    ],
)
def test_what_cannot_be_judged_has_its_reason(
    flags: tuple[str, ...], seen: dict[str, Any], constraint: str, reason: str, tmp_path: Any
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("0\n1\n")
    found = observed(tuple(flag.format(trace=trace) for flag in flags), evenly(20, 10, 0.01), **seen)
    assert found.skipped.keys() == {constraint}
    assert reason in found.skipped[constraint]
    assert found.interrupted == seen.get("interrupted")


@pytest.mark.parametrize(
    ("flags", "missing", "elsewhere", "by_kernel", "skipped"),
    [
        (OPEN, 0, True, True, ["other_load"]),
        (OPEN, 0, False, True, []),
        (OPEN, 50, True, False, []),
        (CLOSED, 0, True, True, []),  # other work makes its next request late, which no schedule shows
    ],
)
def test_other_work_cannot_falsify_what_the_kernel_times_of_a_server_elsewhere(
    flags: tuple[str, ...], missing: int, elsewhere: bool, by_kernel: bool, skipped: list[str]
) -> None:
    clock = KernelClock()
    clock.missing = missing
    found = observed(flags, evenly(10, 10, 0.02, first_s=1), clock=clock, server_elsewhere=elsewhere)
    assert (found.kernel_clock, [*found.skipped]) == (by_kernel, skipped)


@pytest.mark.parametrize(
    ("after", "late", "gone", "restarted"),
    [
        (300, None, False, False),
        (None, None, True, False),
        (99, None, False, True),
        (None, 300, False, False),  # it was busy when the interval ended, and lives
        (None, 99, False, True),
    ],
)
def test_a_server_is_gone_or_was_started_anew_by_its_counters(
    after: int | None, late: int | None, gone: bool, restarted: bool
) -> None:
    counts = {"before": 100, "after": after, "late": late}
    edges: dict[str, Any] = {key: n and {"inference_stats": {"success": {"count": n}}} for key, n in counts.items()}
    found = observed(OPEN, evenly(20, 11, 0.01, first_s=1), had_statistics=True, **edges)
    assert (found.server_gone, found.server_restarted, found.backend_died) == (gone, restarted, False)


def test_a_backend_that_died_is_known_by_its_kind_of_failure() -> None:
    assert observed(OPEN, [answered(2, 0.1, "backend_died")]).backend_died


def test_an_open_loop_s_throughput_is_the_share_answered_of_those_scheduled() -> None:
    outcomes = [*evenly(40, 11, 0.01, first_s=1), *(answered(10.5, 0.1, "http_500") for _ in range(10))]
    shares = [window.answered for window in observed(OPEN, outcomes).windows]
    assert shares == [1.0] * 9 + [0.8]


def test_steadiness_is_judged_within_stages_that_are_long_enough_and_send_something() -> None:
    flags = ("--stages", "6:40,8:0,2:40,3.5:80,3.5:80", "--warmup", "0")
    found = observed(
        flags, [*evenly(40, 6, 0.01), *evenly(40, 16, 0.01, first_s=14), *evenly(80, 23, 0.02, first_s=16)]
    )
    assert [len(windows) for windows in found.stages] == [10, 7, 7]
    assert found.stages[1][0][1] == pytest.approx(20, rel=1e-3)
    assert not found.skipped


@pytest.mark.parametrize(
    ("requests", "late", "shown_ms"),
    [(20, 1, 0.1), (20, 2, 6.0), (79, 3, 0.1), (79, 4, 6.0), (1000, 17, 0.1), (1000, 18, 6.0), (1, 1, 6.0)],
)
def test_a_few_late_sends_are_luck(requests: int, late: int, shown_ms: float) -> None:
    """A number of late sends that chance explains lies within the 95 % interval of one late send in a hundred."""
    late_s = [0.006] * late + [0.0001] * (requests - late)
    found = observed(OPEN, [answered(1 + n * 0.009, 0.5, late_s=each) for n, each in enumerate(late_s)])
    assert found.requests == requests
    assert found.schedule_delay_p99_ms == found.generator_delay_p99_ms == pytest.approx(shown_ms, rel=1e-2)


def test_a_worker_s_trouble_is_its_own_or_that_it_sent_late() -> None:
    workers = [
        worker_figures(0),
        worker_figures(1, (4.0, 6.0)),
        worker_figures(2, None),
        worker_figures(3, (8.0, 9.0), "it quit", clock_ms=2.0),
    ]
    workers.append(worker_figures(4, (0.9, 6.0)))  # by a chance that its interval allows for
    found = observed(OPEN, evenly(10, 11, 0.01, first_s=1), workers=workers)
    late = "worker 1 (host, pid 7): it sent late, by 4 ms or more at p99 (limit 1 ms)"
    assert found.worker_troubles == [late, "worker 3 (host, pid 7): it quit"]
    assert (found.workers, found.clock_uncertainty_ms) == (5, 2.0)
    closed = observed(CLOSED, evenly(10, 11, 0.01, first_s=1), workers=workers)
    assert closed.worker_troubles == ["worker 3 (host, pid 7): it quit"]
