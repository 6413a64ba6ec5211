"""Figures of the clock of a run's answers: what the kernel stamped, and how late requests left."""

import numpy as np
import pytest

from loadgen.sut.kernel_clock import KernelClock
from servemark.figures.evidence import Evidence
from servemark.figures.registry import figures_of, number


def test_stamps_that_are_missing_or_were_refused_are_counted_and_send_errors_summed_up() -> None:
    clock = KernelClock()
    clock.missing, clock.refused = 6, 5
    figures = figures_of(Evidence(clock=clock))
    assert (number(figures, "clock.unstamped"), number(figures, "clock.refused")) == (6, 5)
    assert "the kernel stamped no request" in figures["send_error.p50"]["reason"]
    clock.send_error.record(np.full(100, 20_000))
    assert number(figures_of(Evidence(clock=clock)), "send_error.p50") == pytest.approx(0.02)


def test_a_model_in_this_process_has_no_kernel_s_clock_and_a_reason() -> None:
    found = figures_of(Evidence(clock=None))["clock.unstamped"]
    assert (found["value"], "in this process" in found["reason"]) == (None, True)
