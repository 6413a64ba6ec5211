"""The highest rate that meets an objective: `find_max_rate` searches it with real runs. Knows no command line."""

from servemark.search.max_rate.point import Point
from servemark.search.max_rate.runs import RateRuns, find_max_rate, write_max_rate
from servemark.search.max_rate.search import MaxRate

__all__ = ["MaxRate", "Point", "RateRuns", "find_max_rate", "write_max_rate"]
