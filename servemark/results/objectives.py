"""Objectives: the limits that a server has to keep, their form on the command line, and their judgement.

An objective is not a constraint of the verdict, because a well measured run may show either outcome.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from servemark.errors import OptionError
from servemark.figures.registry import find
from servemark.quantities import MILLISECONDS, PLAIN, RATES, SECONDS, SHARES, number, part_of, text_of
from servemark.results.schema.details import JudgedObjective, ObjectiveStatus, Shown
from servemark.stats.percentiles import BOUND_CONFIDENCE, TooLittle, allowed_beyond, samples_needed

MET: ObjectiveStatus = "met"
MISSED: ObjectiveStatus = "missed"
UNDECIDED: ObjectiveStatus = "undecided"
SYNTAX = "pXX:LIMIT, service_pXX:LIMIT, errors:SHARE, throughput:RATE, recovery:TIME, cold-start:TIME, or FIGURE:LIMIT"
_SYNTAX = re.compile(r"([\w.-]+?)\s*[:=]\s*(\S+)")
_EXAMPLE = "write it like {0} p99:50, or {0} p50:5ms,p99:20ms,errors:0.1%"


LATENCY, SERVICE_TIME = "latency", "service_time"
"""Distributions whose percentiles are judged request by request."""
ERRORS, THROUGHPUT = "errors.share", "throughput.requests"
RECOVERY, COLD_START = "recovery", "cold-start"
OF_TRANSIENTS = {RECOVERY, COLD_START}
"""Times that are no figures of a run, but of the seconds around a command or a start."""
COUNTED = {LATENCY, SERVICE_TIME, ERRORS}
"""Figures that requests tell one by one, so that they are known before the end."""
_READ = {"ms": MILLISECONDS, "s": SECONDS, "share": SHARES} | dict.fromkeys(("requests/s", "inferences/s"), RATES)
_REMEDIES = {
    RECOVERY: (
        "too little is known of the seconds before a command: start it later, or raise the rate",
        "the latency took longer to recover than the objective allows",
    ),
    COLD_START: (
        "it is not known when the latency was steady: raise --duration or the rate",
        "loading the model and warming it took longer than the objective allows: `cold_start` has the parts",
    ),
}
"""Remedies where it is undecided, and where it is missed."""


@dataclass(frozen=True)
class Slo:
    """One objective: the limit of a percentile of the latency in ms, unless `figure` says otherwise.

    `figure` is the tag of a figure; of a percentile of the latency or the service time that of the distribution, with
    `percentile` (0 < p < 100). `limit` is in the figure's unit, for recovery and cold start in s. It is an upper limit,
    except where a higher figure is better.
    """

    percentile: float
    limit: float
    figure: str = LATENCY

    @classmethod
    def parse(cls, text: str, flag: str = "--slo", syntax: str = SYNTAX) -> Self:
        """Read one objective of a flag, like `p99:50`, `errors:0.1%` or `server.queue:2ms`. Raises OptionError.

        `syntax` is what the flag takes, for the error.
        """
        example = _EXAMPLE.format(flag)
        match = _SYNTAX.fullmatch(text.strip())
        if not match:
            raise OptionError(f"{flag} {text.strip()!r} is not {syntax}", fix=example)
        name, given = match.groups()
        if name in OF_TRANSIENTS:
            with part_of(example):
                found = cls(0.0, number(flag, given, SECONDS), name)
        else:
            try:
                figure = find(name)
            except OptionError as error:
                raise OptionError(
                    f"{flag} {text.strip()!r} is not {syntax}: {error.what}", fix=f"{example}; {error.fix}"
                ) from None
            if figure.better is None:
                raise OptionError(f"{flag} {text.strip()!r}: neither more nor less of {name} is better", fix=example)
            with part_of(example):
                found = cls(0.0, number(flag, given, _READ.get(figure.unit.name, PLAIN)), figure.tag)
            distribution = figure.distribution
            if distribution is not None and figure.percentile and distribution.tag in {LATENCY, SERVICE_TIME}:
                found = cls(figure.percentile, found.limit, distribution.tag)
        if found.unit == "share":
            if not 0 <= found.limit <= 1:
                raise OptionError(f"{flag} {text!r}: the share of {name} must lie between 0 and 1", fix=example)
        elif found.limit <= 0:
            words = f"{flag} {text!r}: the limit of {name} must lie above 0 {found.unit}".rstrip()
            raise OptionError(words, fix=example)
        return found

    @property
    def name(self) -> str:
        """Name of the figure with its percentile: `p99`, `service_p99`, `errors`, `recovery`, `server.queue`."""
        if self.timed:
            return f"{'service_' if self.figure == SERVICE_TIME else ''}p{text_of(self.percentile)}"
        if self.figure in OF_TRANSIENTS:
            return self.figure
        return find(self.figure).short or self.figure

    @property
    def timed(self) -> bool:
        """True if the objective limits a percentile of a time of each request."""
        return self.figure in {LATENCY, SERVICE_TIME}

    @property
    def unit(self) -> str:
        """Unit of the limit."""
        if self.timed:
            return "ms"
        return "s" if self.figure in OF_TRANSIENTS else find(self.figure).unit.name

    @property
    def least(self) -> bool:
        """True if the limit is the least that the figure may be."""
        return not self.timed and self.figure not in OF_TRANSIENTS and find(self.figure).better == "higher"

    def __str__(self) -> str:
        return f"{self.name}:{text_of(self.limit)}"


Objectives = tuple[Slo, ...]


def parse_objectives(text: str, flag: str = "--slo", syntax: str = SYNTAX) -> Objectives:
    """Read the objectives of a flag, separated by commas; an empty text has none. Raises OptionError."""
    found = tuple(Slo.parse(part, flag, syntax) for part in text.split(",") if part.strip())
    names = [slo.name for slo in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise OptionError(f"{flag} has {twice} twice", fix="give each figure once")
    return found


def written(objectives: Iterable[Slo]) -> str:
    """Write objectives in the form of the command line."""
    return ",".join(map(str, objectives))


def highest_percentile(objectives: Iterable[Slo]) -> float | None:
    """Return the percentile that needs the most requests, None if no objective has one."""
    return max((slo.percentile for slo in objectives if slo.timed), default=None)


def latency_objective(objectives: Iterable[Slo]) -> Slo | None:
    """Return the objective with the highest percentile of the latency, which searches show; None if there is none."""
    timed = [slo for slo in objectives if slo.figure == LATENCY]
    return max(timed, key=lambda slo: slo.percentile, default=None)


Longer = Callable[[float | None], str]
"""Gives the advice to measure this many times as long; None: longer, by how much is not known."""


@dataclass(frozen=True)
class Seen:
    """A run's figure for an objective: `value` in its unit, None if the run has none, infinite: too long to be seen.

    For a percentile, `over` counts the `requests` that exceeded the limit; both include failed ones. `bound` is what
    the percentile does not exceed with 99 % confidence (infinite: failed requests), or `no_bound` says why there is
    none.
    """

    slo: Slo
    value: float | None
    over: int = 0
    requests: int = 0
    bound: float | None = None
    no_bound: TooLittle | None = None
    unknown: str = ""
    """The reason why there is no value."""
    chance: float = 0.0
    """Shortfall of an open loop's throughput that its drawn arrivals explain."""


def judge_objective(seen: Seen, longer: Longer, relief: str) -> JudgedObjective:
    """Judge an objective; `longer` advises a longer run, `relief` is the advice where the server is too slow.

    A percentile keeps its limit if at most its share of all requests lies over it; failed ones do. So few requests that
    the percentile needs more do not tell, unless as many lie over the limit as may of the number that it needs.
    """
    slo = seen.slo
    shown = _shown(seen, longer) if slo.timed else None
    status = UNDECIDED
    if slo.timed:
        needed = samples_needed(slo.percentile)
        if seen.over > allowed_beyond(slo.percentile, max(seen.requests, needed)):
            # What late sending moved over the limit tells nothing of the server; what it left below does.
            status = UNDECIDED if seen.unknown else MISSED
        elif seen.requests >= needed:
            status = MET
    elif seen.value is not None:
        kept = seen.value + seen.chance >= slo.limit if slo.least else seen.value <= slo.limit
        status = MET if kept else MISSED
    return {
        "objective": str(slo),
        "figure": slo.figure,
        "percentile": slo.percentile if slo.timed else None,
        "status": status,
        "value": None if seen.value == math.inf else seen.value,
        "limit": slo.limit,
        "unit": slo.unit,
        "remedy": _remedy(seen, status, longer, relief),
        "shown": shown,
    }


def overall(objectives: Sequence[JudgedObjective]) -> ObjectiveStatus | None:
    """Combine objectives: missed if one is, else undecided if one is, else met; None if there are none."""
    statuses = {objective["status"] for objective in objectives}
    return next((status for status in (MISSED, UNDECIDED, MET) if status in statuses), None)


def _shown(seen: Seen, longer: Longer) -> Shown:
    found: Shown = {
        "confidence": BOUND_CONFIDENCE,
        "requests": seen.requests,
        "over": seen.over,
        "holds": None if seen.bound is None else seen.bound <= seen.slo.limit,
    }
    if seen.bound is None:
        found["holds_reason"] = seen.no_bound.reason if seen.no_bound else "no request has ended"
        if seen.no_bound and seen.no_bound.factor > 1:
            found["remedy"] = f"{longer(seen.no_bound.factor)}, or judge a lower percentile"
    return found


def _remedy(seen: Seen, status: ObjectiveStatus, longer: Longer, relief: str) -> str:
    slo = seen.slo
    if status == UNDECIDED:
        return _undecided(seen, longer)
    if slo.figure in OF_TRANSIENTS:
        return _REMEDIES[slo.figure][1]
    if slo.figure == ERRORS:
        return "more requests failed than the objective allows: see the errors by kind"
    if slo.figure == THROUGHPUT:
        return "below the objective: raise --request-rate or --concurrency, or tune the server"
    return f"{'below' if slo.least else 'over'} the objective: {relief}"


def _undecided(seen: Seen, longer: Longer) -> str:
    slo = seen.slo
    if seen.unknown:
        return seen.unknown
    if slo.timed:
        needed = samples_needed(slo.percentile)
        advice = longer(needed / seen.requests if seen.requests else None)
        return f"{slo.name} needs {needed:,} requests, these are {seen.requests:,}: {advice}"
    if slo.figure in OF_TRANSIENTS:
        return _REMEDIES[slo.figure][0]
    return f"{slo.name} needs more requests to be known: {longer(None)}"
