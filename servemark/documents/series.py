"""The runs of one command: one, or one for each value of a range S:E[:STEP] (perf_analyzer's), perhaps repeated."""

import math
from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct

from servemark.documents import fields
from servemark.documents.commands import Resume
from servemark.documents.fields import Read
from servemark.documents.flags import KINDS, OPTIONS, Value
from servemark.documents.load import MaxRate
from servemark.documents.request import RunRequest
from servemark.errors import OptionError
from servemark.quantities import RATES, number, text_of, whole

MAX_POINTS = 100


def span(each: Read) -> Read:
    """Return a reader of START:END[:STEP], which gives the values; both ends belong to it. `each` reads a number."""

    def read(flag: str, text: str) -> tuple[float, ...]:
        example = f"{flag} 1:16:5"
        parts = [each(flag, part) for part in text.split(":")]
        if len(parts) not in (2, 3):
            raise OptionError(f"{flag} {text!r} is not START:END[:STEP]", fix=f"write it like {example}")
        start, end, step = parts if len(parts) == 3 else (*parts, 1)
        if step <= 0 or end < start:
            raise OptionError(f"{flag} {text!r} needs START <= END and a STEP above 0", fix=f"write it like {example}")
        # The end belongs to the range also where floating-point steps fall short of it by a hair.
        count = math.floor((end - start) / step + 1e-9) + 1
        if count > MAX_POINTS:
            raise OptionError(f"{flag} {text!r} asks for {count} runs, at most {MAX_POINTS}", fix="raise STEP")
        return tuple(start + index * step for index in range(count))

    return read


def _values(_: tuple[float, ...]) -> str:
    """Write the default: no values."""
    return ""


class Series(Struct, frozen=True, kw_only=True):
    """The runs that one command makes."""

    concurrency_range: Annotated[
        tuple[float, ...],
        fields.text(
            "One run for each concurrency.",
            read=span(lambda flag, text: whole(flag, text, 1)),
            write=_values,
            metavar="S:E[:STEP]",
        ),
    ] = ()
    request_rate_range: Annotated[
        tuple[float, ...],
        fields.text(
            "One run for each rate.",
            read=span(lambda flag, text: number(flag, text, RATES)),
            write=_values,
            metavar="S:E[:STEP]",
        ),
    ] = ()
    repeat: Annotated[int, fields.whole("Repeat each run, with the next seed.")] = 1
    resume: Resume = ""

    def points(self, shared: Mapping[str, Value]) -> list[dict[str, str]]:
        """Return the flags of each run besides those that all of them share, by name. Raises OptionError."""
        ranges = {"concurrency": self.concurrency_range, "request_rate": self.request_rate_range}
        named = [OPTIONS[name].spelled for name in reversed(KINDS) if shared.get(name)]
        named += [f"{OPTIONS[name].spelled}-range" for name, given in ranges.items() if given]
        if len(named) > 1:
            raise OptionError(f"{' and '.join(named)} exclude each other", fix="give one of them")
        return [{name: text_of(value)} for name, given in ranges.items() for value in given] or [{}]

    def require_fit(self, request: RunRequest) -> None:
        """Refuse a series of runs that this one, the first of them, cannot have. Raises OptionError."""
        if self.repeat > 1 and isinstance(request.load, MaxRate):
            raise OptionError("--max-rate and --repeat exclude each other", fix="the search repeats what it finds")
        if self.resume and not isinstance(request.load, MaxRate):
            raise OptionError("--resume goes on with a search: --max-rate", fix="leave out --resume")
        if "=" in request.workload:
            self._require_mix(request)

    def _require_mix(self, request: RunRequest) -> None:
        """Refuse what a mix of workloads cannot have. Raises OptionError."""
        others = {
            "--concurrency-range": self.concurrency_range,
            "--request-rate-range": self.request_rate_range,
            "--max-rate": isinstance(request.load, MaxRate),
            "--repeat": self.repeat > 1,
            "--in-process": request.server.in_process,
            "--cold-start": request.server.cold_start,
            "--model-name": request.server.model_name,
            "--device": request.server.device,
            "--workers": request.limits.workers > 1,
            "--engine-option": request.server.engine_options,
            "--instances": request.server.instances,
        }
        if given := ", ".join(flag for flag, value in others.items() if value):
            raise OptionError(f"a mix has no {given}", fix=f"leave out {given}")
