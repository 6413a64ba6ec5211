"""The loads of a command: one, or S:E[:STEP], perf_analyzer's spelling of a range; both ends belong to it."""

import math
from argparse import Namespace

from servemark.errors import OptionError
from servemark.quantities import COUNTS, RATES, number, text_of

MAX_POINTS = 100
LOADS = {
    "max_rate": "--max-rate",
    "concurrency": "--concurrency",
    "request_rate": "--request-rate",
    "concurrency_range": "--concurrency-range",
    "request_rate_range": "--request-rate-range",
    "stages": "--stages",
    "arrival_trace": "--arrival-trace",
}
"""Options of which a run has one."""


def load_points(load: Namespace, *, concurrency_range: str = "", request_rate_range: str = "") -> list[dict[str, str]]:
    """The runs that these options ask for, each as the options that make it. Raises OptionError."""
    own = {"concurrency_range": concurrency_range, "request_rate_range": request_rate_range}
    given = {"max_rate": "", **vars(load), **own}
    named = [flag for name, flag in LOADS.items() if given[name]]
    if len(named) > 1:
        raise OptionError(f"{' and '.join(named)} exclude each other", fix="give one of them")
    if request_rate_range:
        return [{"request_rate": text_of(rate)} for rate in _values("--request-rate-range", request_rate_range)]
    if concurrency_range:
        return [{"concurrency": text_of(count)} for count in _values("--concurrency-range", concurrency_range)]
    return [{}]


def _values(flag: str, text: str) -> list[float]:
    example = f"{flag} 1:16:5"
    parts = [number(flag, part, RATES if "rate" in flag else COUNTS) for part in text.split(":")]
    if len(parts) not in (2, 3):
        raise OptionError(f"{flag} {text!r} is not START:END[:STEP]", fix=f"write it like {example}")
    start, end, step = parts if len(parts) == 3 else (*parts, 1.0)
    if step <= 0 or end < start:
        raise OptionError(f"{flag} {text!r} needs START <= END and a STEP above 0", fix=f"write it like {example}")
    # The end belongs to the range also where floating-point steps fall short of it by a hair.
    count = math.floor((end - start) / step + 1e-9) + 1
    if count > MAX_POINTS:
        raise OptionError(f"{flag} {text!r} asks for {count} runs, at most {MAX_POINTS}", fix="raise STEP")
    return [start + index * step for index in range(count)]
