"""The runs of a comparison's rounds: which of them count, and what is noted of them."""

from typing import Any

from servemark.compare.interleaved.turn import disturbed, exit_code, unmet, unsteady
from servemark.errors import ExitCode
from tests.support.results import Result, histogram_of, latencies, result_of

NOISE = [1.0, 0.7, 1.2, 0.8, 1.1, 0.6, 1.15, 0.9]
RISING = [0.5, 0.6, 0.7, 0.9, 1.0, 1.1, 1.3, 1.4]


def run(*failed: str, windows: list[float] = NOISE, **changes: Any) -> Result:
    return result_of(histogram_of(latencies(10, 400)), windows=windows, failed=failed, **changes)


def test_windows_that_scatter_are_said_to_and_count() -> None:
    assert unsteady(run())
    assert unmet(run()) == []
    assert not unsteady(run(windows=[1.0, 1.05, 1.02]))
    assert not unsteady(run("steady_state", windows=RISING))
    assert unmet(run("steady_state", windows=RISING)) == ["steady_state"]


def test_a_round_beside_other_work_counts_and_is_noted() -> None:
    busy = run("other_load")
    assert (unmet(busy), disturbed(busy), exit_code(busy)) == ([], True, ExitCode.VALID)
    assert not disturbed(run("steady_state"))


def test_whatever_else_failed_still_does() -> None:
    assert unmet(run("error_rate", "other_load")) == ["error_rate"]
    assert exit_code(run("other_load", objective="missed")) is ExitCode.SLO_MISSED
    assert exit_code(run("error_rate", objective="missed")) is ExitCode.INVALID
