"""Figures that a run gives about itself while it goes on, and that a terminal draws."""

from typing import TypedDict

from servemark.figures.value import FigureValue


class LiveFigures(TypedDict):
    """Figures that a run sends about once a second. Times in ms if the name says so; null: not known yet."""

    time_s: float
    """Of the monotonic clock."""
    elapsed_s: float
    """Of the measured interval; below 0 in the warm-up."""
    auto_warmup: bool
    """True if the warm-up may end sooner."""
    whole_s: float
    answered: int
    """Good answers so far, those of the warm-up included."""
    asked_rate: float | None
    """Requests/s that the schedule asks for now; null in a closed loop and of a trace."""
    figures: dict[str, FigureValue]
    """The live figures, by tag."""
    second_p50_ms: float | None
    """Of the requests that were answered since the figures before."""
    second_p99_ms: float | None
    in_flight: int
    backlog: int
    queue: float | None
    """Requests that wait in the server, as its own metrics say."""
    errors: dict[str, int]
    power_w: dict[str, float]
    """Present power of each metered device, by its name."""
    constraints: dict[str, bool]
    """Those that can be judged so far."""
    objectives: dict[str, str]
    """Objective -> met, missed or undecided so far."""
