"""Record of the golden server: each request as it really came, and Triton's statistics of them."""

import dataclasses
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.golden.behaviour import Behaviour
from tests.golden.tensors import Request


@dataclass
class Entry:
    """One inference request as the server saw it; times are CLOCK_MONOTONIC in nanoseconds."""

    number: int
    connection: int
    arrival_ns: int  # first byte of the head
    start_ns: int  # after stalls and, with a capacity, after the queue
    due_ns: int  # when the last byte of the response is due
    batch: int
    kind: str
    bytes: int  # of the body
    crc32: int  # of the body: tells distinct inputs from repeated ones
    request_id: str
    written_ns: int | None = None  # when the last byte was handed to the socket; None: never


@dataclass
class Record:
    """Everything the server received since its start or the last reset."""

    behaviour: Behaviour
    started_ns: int
    entries: list[Entry] = field(default_factory=list)
    rejected: int = 0  # malformed inference requests, which are not in entries
    paths: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    free_ns: int = 0  # when the single server of `capacity_per_s` becomes free
    success: int = 0
    success_ns: int = 0
    fail: int = 0
    fail_ns: int = 0
    queue_ns: int = 0
    infer_ns: int = 0
    batches: dict[int, list[int]] = field(default_factory=dict)  # batch size -> [executions, compute ns]

    def admit(self, arrival_ns: int, connection: int, request: Request, body: bytes) -> Entry:
        """Number a well-formed inference request, decide its fate and when it is due."""
        behaviour, number = self.behaviour, len(self.entries) + 1
        first_ns = self.entries[0].arrival_ns if self.entries else arrival_ns
        anchor_ns = first_ns if behaviour.stall_anchor == "first_request" else self.started_ns
        start_ns = behaviour.after_stall_ns(max(arrival_ns, self.free_ns), anchor_ns)
        service_ns = behaviour.service_ns(number)
        if behaviour.capacity_per_s:
            self.free_ns = start_ns + service_ns
        kind = behaviour.kind(number)
        due_ns = start_ns + service_ns + round(behaviour.delay_s * 1e9)
        if kind == "slow":
            due_ns += round(behaviour.slow_s * 1e9)
        crc32, size = zlib.crc32(body), len(body)
        entry = Entry(
            number, connection, arrival_ns, start_ns, due_ns, request.batch, kind, size, crc32, request.request_id
        )
        self.entries.append(entry)
        return entry

    def written(self, entry: Entry, now_ns: int) -> None:
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

    def log(self) -> dict[str, Any]:
        """The content of GET /golden/log."""
        return {
            "behaviour": dataclasses.asdict(self.behaviour),
            "started_ns": self.started_ns,
            "connections": self.connections,
            "rejected": self.rejected,
            "paths": dict(self.paths),
            "requests": [vars(entry) for entry in self.entries],
        }

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
