"""Figures that no single run computes: of a search for the highest rate, and of kernels."""

from servemark.figures.figure import Figure
from servemark.figures.value import MS, REQUESTS_PER_S

MAX_RATE = Figure(
    "max_rate.rate",
    REQUESTS_PER_S,
    "Highest rate at which every objective was met, by a search (`--max-rate`).",
    lambda _: None,
    better="higher",
    short="max_rate",
)
KERNEL_TIME = Figure(
    "kernels.time",
    MS,
    "Time of the kernels of a family: the geometric mean of their medians.",
    lambda _: None,
    better="lower",
    short="kernel_time",
)
FIGURES = (MAX_RATE, KERNEL_TIME)
