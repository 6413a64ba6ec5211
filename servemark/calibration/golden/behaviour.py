"""Behaviour of the golden server for each request, and its record of them as they really came."""

import dataclasses
import math
import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

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


@dataclass(slots=True)
class Entry:
    """One inference request as the server saw it; times are CLOCK_MONOTONIC in nanoseconds."""

    number: int
    connection: int
    arrival_ns: int  # first bytes of the head, by the stamp of the kernel where it gives one
    start_ns: int  # after stalls and, with a capacity, after the queue
    due_ns: int  # when the last byte of the response is due
    kind: str
    batch: int = 1
    written_ns: int | None = None  # when the last byte was handed to the socket; None: never


E = TypeVar("E", bound=Entry)


class Record(Generic[E]):
    """Everything the server received since its start or the last reset."""

    def __init__(self, behaviour: Behaviour, entry: type[E]) -> None:
        self.behaviour, self._entry = behaviour, entry
        self.started_ns = time.monotonic_ns()
        self.entries: list[E] = []
        self.rejected = 0  # malformed inference requests, which are not in entries
        self.paths: Counter[str] = Counter()
        self.connections = 0
        self._free_ns = 0  # when the single server of `capacity_per_s` becomes free
        self.success = self.success_ns = self.fail = self.fail_ns = self.queue_ns = self.infer_ns = 0
        self.batches: dict[int, list[int]] = {}  # batch size -> [executions, compute ns]

    def admit(self, arrival_ns: int, connection: int, **more: Any) -> E:
        """Number a well-formed inference request, decide its fate and when it is due."""
        behaviour, number = self.behaviour, len(self.entries) + 1
        start_ns = arrival_ns
        if behaviour.capacity_per_s or behaviour.stall_s:
            first_ns = self.entries[0].arrival_ns if self.entries else arrival_ns
            anchor_ns = first_ns if behaviour.stall_anchor == "first_request" else self.started_ns
            start_ns = behaviour.after_stall_ns(max(arrival_ns, self._free_ns), anchor_ns)
            self._free_ns = start_ns + behaviour.service_ns(number) if behaviour.capacity_per_s else 0
        due_ns = (self._free_ns or start_ns) + behaviour.delay_ns(number)
        entry = self._entry(number, connection, arrival_ns, start_ns, due_ns, behaviour.kind(number), **more)
        self.entries.append(entry)
        return entry

    def log(self) -> dict[str, Any]:
        """The content of GET /golden/log."""
        return {
            "behaviour": dataclasses.asdict(self.behaviour),
            "started_ns": self.started_ns,
            "connections": self.connections,
            "rejected": self.rejected,
            "paths": dict(self.paths),
            "requests": [dataclasses.asdict(entry) for entry in self.entries],
        }

    def times(self) -> dict[str, list[Any]]:
        """The content of GET /golden/times: columns, since a ceiling has 100,000 requests and more."""
        return {
            name: [getattr(entry, name) for entry in self.entries]
            for name in ("connection", "arrival_ns", "due_ns", "kind", "written_ns")
        }

    def written(self, entry: E, now_ns: int) -> None:
        """Count a response; resets and unanswered requests count neither as success nor as failure."""
        entry.written_ns = now_ns
        if entry.kind == "error":
            self.fail += 1
            self.fail_ns += now_ns - entry.arrival_ns
            return
        compute_ns = entry.due_ns - entry.start_ns
        self.success += 1
        self.success_ns += now_ns - entry.arrival_ns
        self.queue_ns += entry.start_ns - entry.arrival_ns
        self.infer_ns += compute_ns
        batch = self.batches.setdefault(entry.batch, [0, 0])
        batch[0] += 1
        batch[1] += compute_ns

    def statistics(self) -> dict[str, Any]:
        """The content of GET /v2/models/M/stats, as Triton's statistics extension lays it out."""

        def duration(count: int, ns: int) -> dict[str, int]:
            return {"count": count, "ns": ns}

        count, none = self.success, duration(self.success, 0)
        model = {
            "name": self.behaviour.model,
            "version": "1",
            "last_inference": 0,
            "inference_count": sum(size * batch[0] for size, batch in self.batches.items()),
            "execution_count": count,
            "inference_stats": {
                "success": duration(count, self.success_ns),
                "fail": duration(self.fail, self.fail_ns),
                "queue": duration(count, self.queue_ns),
                "compute_input": none,
                "compute_infer": duration(count, self.infer_ns),
                "compute_output": none,
                "cache_hit": duration(0, 0),
                "cache_miss": duration(0, 0),
            },
            "batch_stats": [
                {
                    "batch_size": size,
                    "compute_input": duration(executions, 0),
                    "compute_infer": duration(executions, ns),
                    "compute_output": duration(executions, 0),
                }
                for size, (executions, ns) in sorted(self.batches.items())
            ],
        }
        return {"model_stats": [model]}
