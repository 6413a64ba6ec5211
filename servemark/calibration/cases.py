"""Cases of a calibration, declared one by one: what the server does, the load, and what is then true."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from servemark.calibration.golden.behaviour import Behaviour

OPEN_IN_FLIGHT, PACED_IN_FLIGHT = 128, 10
"""More than a stall of 1 s lets gather at 100/s; and users whose rate each is a tenth of that."""


class Load(NamedTuple):
    """A closed loop of `in_flight`, or arrivals at `rate` requests/s for so long."""

    seconds: int
    in_flight: int = OPEN_IN_FLIGHT
    rate: int = 0
    arrivals: Literal["", "constant", "poisson"] = ""


@dataclass(frozen=True)
class Case:
    """One server under one load.

    A percentile is held against the server's log, from arrival to answer. `scheduled`: against theory instead, because
    a request that is sent too late reaches the log too late as well.
    """

    name: str
    title: str
    behaviour: Behaviour
    load: Load
    full_s: int
    """Seconds with --full."""
    theory_ms: Mapping[float, float] = field(default_factory=dict)
    """Percentile -> latency that theory gives."""
    scheduled: bool = False
    thieves: bool = False
    """A process that computes beside it for each core. What that costs is shown, not judged."""
    shows: Literal["", "floor", "ceiling", "failures"] = ""
    """The figure that is read from it beside percentiles."""

    @property
    def judged(self) -> bool:
        """True: its errors are the load generator's own, not those of a machine that has no room left."""
        return not self.thieves and self.shows != "ceiling"


CASES = (
    Case("floor", "answers at once, 1 in flight", Behaviour(), Load(1, 1), 5, shows="floor"),
    Case("ceiling", "answers at once, 32 in flight", Behaviour(), Load(1, 32), 5, shows="ceiling"),
    Case(
        "constant",
        "5 ms, 8 in flight",
        Behaviour(delay_s=0.005),
        Load(1, 8),
        10,
        dict.fromkeys((50.0, 90.0, 95.0, 99.0), 5.0),
    ),
    Case(
        "exponential",
        "exponential of mean 10 ms, 16 in flight",
        Behaviour(delay_s=0.01, delays="exponential"),
        Load(1, 16),
        10,
        {p: -10 * math.log(1 - p / 100) for p in (50.0, 90.0, 95.0, 99.0)},
    ),
    Case(
        "bimodal",
        "2 ms, and 40 ms for 30 %, 16 in flight",
        Behaviour(delay_s=0.002, long_share=0.3, long_s=0.04),
        Load(1, 16),
        10,
        {50.0: 2.0, 90.0: 40.0, 95.0: 40.0, 99.0: 40.0},
    ),
    Case(
        "resets",
        "2 ms, every 50th connection reset, 4 in flight",
        Behaviour(delay_s=0.002, reset_every=50),
        Load(1, 4),
        5,
        shows="failures",
    ),
    Case(
        "thief",
        "5 ms, 8 in flight, other work on every core",
        Behaviour(delay_s=0.005),
        Load(1, 8),
        10,
        thieves=True,
    ),
    Case(
        "stall",
        "1 s of stall in every 10 s, 100/s constant",
        # Half a gap off the arrivals, so that none falls on the edge.
        Behaviour(stall_s=1, stall_every_s=10, stall_phase_s=4.505, stall_anchor="first_request"),
        Load(10, rate=100, arrivals="constant"),
        30,
        {50.0: 0.0, 95.0: 500.0, 99.0: 900.0},
        scheduled=True,
    ),
    Case(
        "queue",
        "one server of 5 ms, Poisson 100/s (M/D/1)",
        Behaviour(capacity_per_s=200),
        Load(11, rate=100, arrivals="poisson"),
        60,
        # Crommelin's formula: tests.support.queues
        {50.0: 5.0, 90.0: 12.58, 95.0: 15.25, 99.0: 21.68},
    ),
)
