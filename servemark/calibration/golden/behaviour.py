"""Behaviour of the golden server for each request: a function of its arrival time and its number alone."""

import math
import random
from dataclasses import dataclass
from typing import ClassVar, Literal

_GOLDEN_RATIO = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Behaviour:
    """Known behaviour by construction; every `*_every` counts inference requests from 1 and 0 turns it off.

    The server is infinitely parallel unless `capacity_per_s` makes it one first-in-first-out server whose service time
    is 1 / capacity_per_s, or `exponential` of that mean: M/D/1 and M/M/1 under Poisson arrivals. A request that arrives
    in a stall starts at the stall's end. The delay follows the service.
    """

    kinds: ClassVar[tuple[str, ...]] = ("reset",)
    """Fates that have an `*_every`; where two fall on a request it gets the first."""

    model: str = "golden"
    delay_s: float = 0.0
    delays: Literal["constant", "exponential"] = "constant"  # exponential: of this mean
    long_share: float = 0.0  # of the requests, which take long_s instead
    long_s: float = 0.0
    stall_s: float = 0.0
    stall_every_s: float = 0.0
    stall_phase_s: float = 0.0  # from the anchor to the start of the first stall
    stall_anchor: Literal["start", "first_request"] = "start"
    capacity_per_s: float = 0.0
    exponential: bool = False
    reset_every: int = 0
    realtime: bool = False  # before all ordinary work, where that is permitted
    awake: bool = False  # polls and never sleeps, at the price of a core: no wake-up comes before its arrival times

    def __post_init__(self) -> None:
        if self.stall_s and self.stall_every_s <= self.stall_s:
            raise ValueError(f"stall_every_s={self.stall_every_s} must be longer than stall_s={self.stall_s}")

    def service_ns(self, number: int) -> int:
        """Return the service time of the one server for inference request `number`; 0 without a capacity."""
        if not self.capacity_per_s:
            return 0
        times = random.Random(number).expovariate(1.0) if self.exponential else 1.0  # noqa: S311 - no secret
        return math.ceil(times * 1e9 / self.capacity_per_s)

    def delay_ns(self, number: int) -> int:
        """Return the delay of inference request `number`.

        Weyl's sequence spreads the requests evenly over the distribution, so that even a few hundred have its
        percentiles.
        """
        if self.delays == "constant" and not self.long_share:
            return round(self.delay_s * 1e9)
        share = number * _GOLDEN_RATIO % 1
        if share >= 1 - self.long_share:
            return round(self.long_s * 1e9)
        return round(self.delay_s * (-math.log(1 - share) if self.delays == "exponential" else 1) * 1e9)

    def kind(self, number: int) -> str:
        """Return the fate of inference request `number` (from 1): one of the kinds, or "ok"."""
        for kind in self.kinds:
            every: int = getattr(self, f"{kind}_every")
            if every and number % every == 0:
                return kind
        return "ok"

    def after_stall_ns(self, time_ns: int, anchor_ns: int) -> int:
        """`time_ns`, or the end of the stall that it falls into."""
        first_ns = anchor_ns + round(self.stall_phase_s * 1e9)
        if not self.stall_s or time_ns < first_ns:
            return time_ns
        period_ns, stall_ns = round(self.stall_every_s * 1e9), round(self.stall_s * 1e9)
        into_ns = (time_ns - first_ns) % period_ns
        return time_ns - into_ns + stall_ns if into_ns < stall_ns else time_ns
