"""What the golden server does to each request, and when: a function of its arrival time and its number alone."""

import dataclasses
import math
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.golden_tensors import Request, Tensor

# The order decides which one a request gets when two "every Nth" fall on it: the first.
KINDS = ("never", "reset", "truncate", "error", "wrong_shape", "wrong_datatype", "wrong_value", "slow")


@dataclass(frozen=True)
class Behaviour:
    """Known behaviour by construction; every `*_every` counts inference requests from 1 and 0 turns it off.

    The server is infinitely parallel unless `capacity_per_s` makes it one first-in-first-out server whose service time
    is 1 / capacity_per_s. A request that arrives in a stall starts at the stall's end. `delay_s` follows the service.
    """

    model: str = "golden"
    aliases: tuple[str, ...] = ()  # other names of the same model, with a record of paths and the statistics in common
    inputs: tuple[str, ...] = ("INPUT0:FP32:64",)
    outputs: tuple[str, ...] = ("OUTPUT0:FP32:64",)
    max_batch_size: int = 64
    answers: str = ""  # a golden.npz whose outputs to answer with, instead of the inputs
    delay_s: float = 0.0
    stall_s: float = 0.0
    stall_every_s: float = 0.0
    stall_phase_s: float = 0.0  # from the anchor to the start of the first stall
    stall_anchor: Literal["start", "first_request"] = "start"
    capacity_per_s: float = 0.0
    error_every: int = 0
    error_status: int = 500
    wrong_shape_every: int = 0
    wrong_datatype_every: int = 0
    wrong_value_every: int = 0
    reset_every: int = 0
    truncate_every: int = 0
    never_every: int = 0
    slow_every: int = 0
    slow_s: float = 0.1  # between the first piece of a slow response and its last
    slow_pieces: int = 10
    awake: bool = False  # polls and never sleeps, at the price of a core: no wake-up comes before its arrival times
    certificate: str = ""  # a PEM file with certificate and key: TLS on the port, and another one without for the log
    client_ca: str = ""  # a PEM file: only clients with a certificate of this CA
    authorization: str = ""  # what the field must be in each request; 401 otherwise

    def __post_init__(self) -> None:
        if self.stall_s and self.stall_every_s <= self.stall_s:
            raise ValueError(f"stall_every_s={self.stall_every_s} must be longer than stall_s={self.stall_s}")
        if self.slow_pieces < 2:
            raise ValueError(f"slow_pieces={self.slow_pieces} must be at least 2")

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The model's inputs, without the batch dimension."""
        return tuple(Tensor.parse(text) for text in self.inputs)

    @property
    def output_tensors(self) -> tuple[Tensor, ...]:
        """The model's outputs, without the batch dimension."""
        return tuple(Tensor.parse(text) for text in self.outputs)

    def kind(self, number: int) -> str:
        """What happens to inference request `number` (from 1): one of KINDS, or "ok"."""
        for kind in KINDS:
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
        service_ns = 0
        if behaviour.capacity_per_s:
            service_ns = math.ceil(1e9 / behaviour.capacity_per_s)
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
