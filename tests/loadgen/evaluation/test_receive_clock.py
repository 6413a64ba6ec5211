"""The clock of a run's answers, by the share of them to which the kernel gave a stamp that holds."""

import numpy as np
import pytest

from loadgen.evaluation.receive_clock import clock_figures, receive_clock
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from loadgen.sut.kernel_clock import KernelClock
from servemark.results.schema.header import reason_of


def recorded(answered: int, clock: KernelClock | None) -> Recorder:
    recorder = Recorder(Interval(0, 1_000_000_000, 1))
    recorder.answered, recorder.clock = answered, clock
    return recorder


@pytest.mark.parametrize(
    ("missing", "refused", "found"),
    [(0, 0, "kernel"), (5, 5, "kernel"), (6, 5, "both"), (999, 0, "both"), (1000, 0, "process"), (4000, 0, "process")],
)
def test_the_clock_is_the_kernels_where_nearly_all_answers_have_its_stamp(
    missing: int, refused: int, found: str
) -> None:
    clock = KernelClock()
    clock.missing, clock.refused = missing, refused
    recorder = recorded(1000, clock)
    assert receive_clock(recorder) == found
    figures = clock_figures(recorder)
    assert (figures["receive"], figures["unstamped"], figures["refused"]) == (found, missing, refused)
    assert "the kernel stamped no request" in str(reason_of(figures["send_error_ms"], "p50"))


def test_a_model_in_this_process_has_the_process_clock_and_a_reason() -> None:
    figures = clock_figures(recorded(1000, None))
    assert (figures["receive"], figures["unstamped"]) == ("process", None)
    assert "in this process" in str(reason_of(figures, "unstamped"))


def test_send_errors_are_summed_up() -> None:
    clock = KernelClock()
    clock.send_error.record(np.full(100, 20_000))
    assert clock_figures(recorded(1000, clock))["send_error_ms"]["p50"] == pytest.approx(0.02)
