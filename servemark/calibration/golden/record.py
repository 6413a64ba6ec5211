"""Record of the golden server: each request as it really came, and Triton's statistics of them."""

import dataclasses
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from servemark.calibration.golden.behaviour import Behaviour


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
