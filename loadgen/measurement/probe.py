"""A first look at a server: a few requests before the load, or a short closed loop without Locust."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

from loadgen.driver.connections import Connections
from loadgen.driver.event_loop import Driver
from loadgen.driver.observers import BACKEND_DIED, Failures
from loadgen.inputs.sources import GENERATED
from loadgen.kserve.grpc_call import UNIMPLEMENTED
from loadgen.kserve.grpc_control import NOT_KSERVE
from loadgen.load.arrivals import ClosedLoopArrivals, OpenLoopArrivals
from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import Outcome, Payload
from loadgen.sut.target import Target
from loadgen.transport.access import NO_ACCESS, Access
from servemark import interrupts
from servemark.documents.request import SYNTHETIC
from servemark.errors import ServerError

TRIES = 3
"""A server that fails now and then is measured; one that fails so often in a row fails always."""
_BY_WORDS = {
    "correlation ID": "--sequence-length N: the model keeps its state from one request of a sequence to the next",
    "decoupled": "--protocol grpc --streaming: the model answers a request more or less than once",
}
"""Remedies for a failure, by the server's message. They come first: Triton calls a decoupled model unimplemented."""
_REMEDIES = {
    BACKEND_DIED: "the process that ran the model died: read the server's log, restart the server, then run again",
    "http_4": "--shape, --input-range or --input-data for other inputs; the server says what it wants",
    "http_5": "the server's log",
    "grpc_": "--shape, --input-range or --input-data for other inputs; the server says what it wants",
    "wrong_": "the server's answers are not what its metadata says: correct the model's configuration there",
    "missing_": "the server's answers are not what its metadata says: correct the model's configuration there",
    "timeout": "--request-timeout with more seconds, or see what the server does",
}
"""The same by the start of its kind."""
_KSERVE = {
    "http_404": "--endpoint-type where the server does not speak KServe v2; else the model's name and version",
    UNIMPLEMENTED: NOT_KSERVE,
}
"""The same for a server of KServe v2."""
_OTHER_API = {
    UNIMPLEMENTED: "another --endpoint-type or request.method in its file, or --url of a server that has the method",
    "http_4": "another --endpoint-type, or another request.path in its file; the server says what it wants",
    "wrong_": "--output NAME:TYPE:SHAPE as the server answers, or other pointers in the file of --endpoint-type",
    "missing_": "the pointers under `answer` in the file of --endpoint-type, or the names of --output",
}
"""The same for a server that is asked by a description."""


def require_answer(
    target: Target, requests: Iterator[Payload], config: LoadConfig, on_tick: Callable[[int], None]
) -> tuple[Iterator[Payload], int]:
    """Send a request alone, before the load, and up to two more where it fails, within one time-out in all.

    Golden ones, which come first, would not show that one's own inputs fail, so others are taken where there are any.
    Returns the requests in their order, none of them missing, and how many went out. Raises ServerError with the
    server's own words where all of them failed.
    """
    taken: list[Payload] = []
    seen: list[Outcome] = []
    tried = itertools.chain(_others(requests, taken), itertools.cycle(taken))
    deadline = time.monotonic() + config.limits.request_timeout_s
    while not seen or (seen[-1].error and len(seen) < TRIES and time.monotonic() < deadline):
        request, timeout_s = replace(next(tried), alone=True), config.limits.request_timeout_s
        with closing(Connections(target.connect, 1)) as connections:
            driver = Driver(connections, iter([request]), timeout_s=timeout_s, on_outcome=seen.append)
            driver.run(OpenLoopArrivals([0], time.monotonic_ns()), on_tick)
    if seen[-1].error:
        failed, _ = Failures(config.access).named(seen[0])
        kind, words = str(failed.error), failed.message
        fix = remedy_of(kind, words, described=bool(config.server.endpoint_type))
        if kind.startswith("http_5") and not config.server.endpoint_type:
            fix = _after_server_error(target, config)
        raise ServerError(f"{config.model} fails at a first request, {kind}: {_last(words)}", fix=fix)
    return itertools.chain(taken, requests), len(seen)


def _others(requests: Iterator[Payload], taken: list[Payload]) -> Iterator[Payload]:
    """Yield the requests that are not golden, and keep all that were taken for it."""
    for request in requests:
        taken.append(request)
        if not request.golden_rows:
            yield request


def _after_server_error(target: Target, config: LoadConfig) -> str:
    """Return what may help after HTTP 5xx, of what this request can have: ids, binary tensors."""
    ids = [
        tensor.name
        for tensor in config.workload.inputs
        if tensor.dtype.kind in "iu" and tensor.name not in config.inputs.input_range
    ]
    fixes = ["the server's log"]
    if config.input_data not in GENERATED:
        fixes.insert(0, f"correct {config.input_data}, if the server refuses what it holds")
    elif ids and config.workload.served and config.input_data in (SYNTHETIC, "random"):
        fixes.append(f"--input-range {ids[0]}:LEAST:MOST if {ids[0]} holds ids")
    elif config.workload.served:
        fixes.append("--input-data FILE with inputs that the model takes")
    if target.config.get("input_tensor_format") == "binary" and config.server.shared_memory == "none":
        fixes.append("--input-tensor-format json")
    return "; ".join(fixes)


def remedy_of(kind: str, words: str, *, described: bool) -> str | None:
    """Return the remedy for a kind of failure with the server's words; None if it is not known."""
    remedies = _REMEDIES | (_OTHER_API if described else _KSERVE)
    # the longest sign first: http_404 says more than http_4
    by_kind = (remedies[sign] for sign in sorted(remedies, key=len, reverse=True) if kind.startswith(sign))
    return next((fix for sign, fix in _BY_WORDS.items() if sign in words), None) or next(by_kind, None)


def _last(words: str) -> str:
    """Return the useful part of a server's message: the last line of a Python traceback."""
    lines = [line for line in words.splitlines() if line.strip()]
    return lines[-1].strip() if lines and "Traceback" in words else words


def probe(
    target: Target,
    requests: Iterator[Payload],
    concurrency: int,
    *,
    least_s: float,
    timeout_s: float,
    access: Access = NO_ACCESS,
) -> tuple[float, float]:
    """Measure the smallest latency in ms and the requests/s; it lasts until each connection could have an answer.

    Raises ServerError where no request was answered.
    """
    seen: list[Outcome] = []
    with closing(Connections(target.connect, concurrency)) as connections:
        driver = Driver(connections, requests, timeout_s=timeout_s, on_outcome=seen.append)
        connections.open_ahead(concurrency)
        start = time.monotonic_ns()
        end = start + int(least_s * 1e9)
        arrivals = ClosedLoopArrivals(concurrency, lambda now: now >= end and len(seen) >= concurrency)
        driver.run(arrivals, lambda _now: interrupts.check())
        passed_s = (time.monotonic_ns() - start) / 1e9
    good = [outcome.done - outcome.scheduled for outcome in seen if outcome.error is None]
    if not good:
        failed, _ = Failures(access).named(seen[0])
        raise ServerError(f"no request of a first {least_s:g} s was answered: {failed.error} {failed.message}")
    return min(good) / 1e6, len(good) / passed_s


class OneShotLoop(ClosedLoopArrivals):
    """A closed loop over `count` requests, each of which is sent once: its arrivals, and its payloads."""

    def __init__(self, requests: Iterator[Payload], count: int, concurrency: int) -> None:
        super().__init__(concurrency, lambda _: not self._left)
        self._requests, self._left = requests, count

    def payloads(self) -> Iterator[Payload]:
        """The requests."""
        for payload in self._requests:
            self._left -= 1
            yield payload

    def wanted(self, in_flight: int, now: int) -> int:
        return min(super().wanted(in_flight, now), self._left)


def answer_each(
    target: Target,
    requests: Iterator[Payload],
    count: int,
    concurrency: int,
    *,
    timeout_s: float,
    on_outcome: Callable[[Outcome], None],
    on_tick: Callable[[int], None],
) -> None:
    """Send `count` requests once each, `concurrency` of them in flight; all outcomes are reported in this thread.

    Requests are made as they are wanted. Raises what making one or a callback raises, KeyboardInterrupt where this
    process is to end; what was in flight then has no outcome.
    """

    def tick(now: int) -> None:
        interrupts.check()
        on_tick(now)

    loop = OneShotLoop(requests, count, concurrency)
    with closing(Connections(target.connect, concurrency)) as connections:
        driver = Driver(connections, loop.payloads(), timeout_s=timeout_s, on_outcome=on_outcome)
        connections.open_ahead(concurrency)
        driver.run(loop, tick)
