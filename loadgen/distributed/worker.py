"""Worker's part of one run: it prepares, reports so, begins at the master's order, and reports its records."""

import contextlib
import functools
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn, TypeVar
from uuid import uuid4

import gevent
import msgspec
from gevent import GreenletExit, monkey
from gevent.hub import Hub
from gevent.queue import Empty, Queue

from loadgen.distributed.messages import STATE_EVERY_S, UNDECIDED_EVERY_S, Message, Send, fingerprint, state_of
from loadgen.inputs.sources import golden_of
from loadgen.load.arrivals import Share
from loadgen.load.load_config import LoadConfig, Lookup
from loadgen.measurement.output_agreement import require_fit
from loadgen.measurement.sender import ActiveLoad, Sender, Statistics
from loadgen.sut.target import Target
from loadgen.targets.open import open_target
from servemark import interrupts
from servemark.documents.request import RunRequest, changed
from servemark.errors import ExitCode, ServemarkError, WorkerError
from servemark.workload import Workload

_END = object()
ASK_EVERY_S = 1.0
JOIN_TIMEOUT_S = 120.0
"""Maximum wait of a worker that Locust has started for the master's first order."""
BEGIN_TIMEOUT_S = 900.0
"""Maximum wait of a worker that is ready for the others."""
SILENCE_S = 20.0
"""A worker stops sending if it has not heard from the master for this time."""
T = TypeVar("T")


@dataclass(frozen=True)
class EventLoop:
    """The event loop of the thread that makes this; other threads have it call functions and wait for them.

    A thread of gevent's pool needs it for code that is not ours to choose. Only the event loop's thread can start a
    process under gevent ("child watchers are only available on the default loop"), and what is imported may start one:
    numpy asks `lscpu` or `getconf` for a CPU's features.
    """

    hub: Hub = field(default_factory=gevent.get_hub)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the event loop's thread and return what it returns. Raises what it raises."""
        if gevent.get_hub() is self.hub:
            return function(*arguments)
        outcome: dict[str, Any] = {}
        # A lock of the operating system: gevent's would need an event loop in this thread.
        ended = monkey.get_original("_thread", "allocate_lock")()
        ended.acquire()

        def run() -> None:
            try:
                outcome["value"] = function(*arguments)
            except BaseException as error:
                outcome["error"] = error
            finally:
                ended.release()

        self.hub.loop.run_callback_threadsafe(gevent.spawn, run)
        ended.acquire()
        if "error" in outcome:
            raise outcome["error"]
        return outcome["value"]

    def each(self, function: Callable[..., Iterator[Any]], *arguments: Any) -> Iterator[Any]:
        """Yield what an iterator gives; it is made, and asked for each, in the event loop's thread."""
        found = self.call(lambda: iter(function(*arguments)))
        while (item := self.call(next, found, _END)) is not _END:
            yield item


def with_code_in_event_loop(workload: Workload) -> Workload:
    """Return a workload for another thread, whose own code runs in this one's event loop: its samples and readers."""
    loop = EventLoop()

    def bound(function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        return lambda *arguments: loop.each(function, *arguments)

    read = bound(workload.read) if workload.read is not None else None
    return replace(workload, samples=bound(workload.samples), read=read)


class Stopped(Exception):  # noqa: N818 - an order, not a fault
    """The master said so, or is gone."""


class Worker:
    """One run, as a worker sees it. `orders` brings the master's messages, `send` sends one to it.

    `local` gives the request that came with the first order this host's own paths; `lookup` finds its workload;
    `master_silent_s` says how long ago the master's last sign of life was.
    """

    def __init__(
        self,
        orders: "Queue[Message]",
        send: Send,
        *,
        local: Callable[[RunRequest], RunRequest],
        lookup: Lookup,
        master_silent_s: Callable[[], float],
        statistics: Callable[[LoadConfig], Statistics],
    ) -> None:
        self._orders, self._send_to_master = orders, send
        self._local, self._lookup = local, lookup
        self._master_silent_s, self._statistics = master_silent_s, statistics
        self._run = ""
        self._next_state = 0.0
        self._decided = False
        self._sending: ActiveLoad | None = None
        self._last: dict[str, Any] | None = None
        """The final figures."""

    def run(self) -> None:
        """Take part from the first order to the final report; failures are reported to the master."""
        first = self._join()
        self._run = first["run"]
        try:
            self._take_part(first)
        except Stopped:
            pass
        except ServemarkError as error:
            self._report("failed", what=error.what, fix=error.fix, exit_code=int(error.exit_code))
        except Exception as error:
            self._report("failed", what=f"{type(error).__name__}: {error}", fix=None, exit_code=int(ExitCode.INTERNAL))
            raise

    def stop(self, reason: str) -> None:
        """Note the reason why the worker is about to be ended."""
        if self._sending is not None:
            self._sending.interrupted = reason

    def _join(self) -> Message:
        """Ask until the master gives the first order. Raises WorkerError after the time-out."""
        token, deadline = uuid4().hex, time.monotonic() + JOIN_TIMEOUT_S
        while time.monotonic() < deadline:
            interrupts.check()
            self._send_to_master({"run": "", "kind": "join", "token": token})
            with contextlib.suppress(Empty):
                order: Message = self._orders.get(timeout=ASK_EVERY_S)
                # What is left of an earlier run has another token, or none.
                if order["kind"] == "prepare" and order["token"] == token:
                    return order
        raise WorkerError(
            f"the master did not count on this worker within {JOIN_TIMEOUT_S:g} s",
            fix="one that comes during a run takes part in the next; else read the master's log",
        )

    def _take_part(self, first: Message) -> None:
        config = self._config(first)
        # Here and not in a thread: each kind of target is a module to import.
        target = open_target(config)
        sender, parts = _in_thread(self._prepare, first, config, target)
        try:
            with contextlib.closing(target), contextlib.closing(sender.open()) as connections:
                self._report("ready", host=socket.gethostname(), pid=os.getpid(), fingerprint=parts)
                start_ns = self._wait_for("begin", BEGIN_TIMEOUT_S)["start_ns"]
                self._decided = config.open_loop
                self._send(ActiveLoad(sender, connections, start_ns))
        finally:
            # Last of all: the master may end, and this process with it, when it has heard that.
            if self._last:
                self._report("state", **self._last)

    def _send(self, sending: ActiveLoad) -> None:
        """Send the share from its start on, until the master or a signal ends it."""
        self._sending = sending
        try:
            sending.run(functools.partial(self._tick, sending))
        finally:
            self._last = self._figures(sending, final=True)

    def _config(self, first: Message) -> LoadConfig:
        """Resolve the request of the first order. Raises ServemarkError where this host lacks a file."""
        request = self._local(msgspec.json.decode(first["request"], type=RunRequest))
        address = first["address"]
        # Finding a workload imports its code, which a thread must not do; a trace of millions of lines it may read.
        workload = with_code_in_event_loop(self._lookup(changed(request, url=address, protocol="")))
        return _in_thread(functools.partial(LoadConfig.of, request, lambda _: workload, address=address))

    def _prepare(self, first: Message, config: LoadConfig, target: Target) -> tuple[Sender, dict[str, str]]:
        """Make the requests and the schedule. Raises ServemarkError."""
        share = Share(first["index"], first["of"])
        try:
            target.prepare()
            golden = golden_of(config) if first["golden"] else None
            if first["golden"] and golden is None:
                raise WorkerError(
                    f"{config.entry.golden} is not there, which the master has",
                    fix="copy the model repository to this host, or name it: --model-repository DIR",
                )
            if golden is not None:
                require_fit(golden, config.entry, config.workload.inputs, config.workload.outputs)
            sender = Sender(config, target, statistics=self._statistics(config), share=share)
            sender.prepare(golden)
            return sender, fingerprint(config, sender.schedule, golden)
        except BaseException:
            target.close()
            raise

    def _tick(self, sending: ActiveLoad, now: int) -> None:
        """Follow the master's orders and report, while requests are sent."""
        interrupts.check()
        while not self._orders.empty():
            order = self._orders.get()
            if order["run"] != self._run:
                continue
            if order["kind"] == "measure":
                sending.begin_interval(order["start_ns"])
            elif order["kind"] == "end":
                self._decided = True
                sending.recorder.end_at(sending.interval.start + order["length_ns"])
            elif order["kind"] == "stop":
                _cut_short(sending, order["reason"])
        silent_s = self._master_silent_s()
        if silent_s > SILENCE_S:
            _cut_short(sending, f"the master was silent for {silent_s:.0f} s")
        if time.monotonic() >= self._next_state:
            self._report("state", **self._figures(sending, final=False))
            undecided = not self._decided or self._warming(sending, now)
            self._next_state = time.monotonic() + (UNDECIDED_EVERY_S if undecided else STATE_EVERY_S)

    def _warming(self, sending: ActiveLoad, now: int) -> bool:
        """Return True if the master may still end the warm-up."""
        return sending.warm_up is not None and now < sending.interval.start

    def _figures(self, sending: ActiveLoad, *, final: bool) -> dict[str, Any]:
        """Return all records; the outputs are compared at the end."""
        sending.recorder.flush()
        now = time.monotonic_ns()
        checked = sending.checked() if final else None
        return {
            "final": final,
            "recorder": state_of(sending.recorder, final=final),
            "warm_up": sending.warm_up.pack(now, sending.waiting_since)
            if sending.warm_up is not None and self._warming(sending, now)
            else None,
            "cpu_utilization": sending.cpu_utilization,
            "granted": asdict(sending.granted),
            "max_in_flight": sending.peak_in_flight,
            "traffic": asdict(sending.traffic(now)),
            "interrupted": sending.interrupted,
            "checked": asdict(checked) if checked else None,
        }

    def _report(self, kind: str, **content: Any) -> None:
        self._send_to_master({"run": self._run, "kind": kind, **content})

    def _wait_for(self, kind: str, timeout_s: float) -> Message:
        """Return the next order of this kind. Raises Stopped, WorkerError after the time-out."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            interrupts.check()
            try:
                order: Message = self._orders.get(timeout=1.0)
            except Empty:
                continue
            if order["run"] == self._run and order["kind"] == kind:
                return order
            if order["run"] == self._run and order["kind"] == "stop":
                raise Stopped
        raise WorkerError(f"the master gave no order to {kind} within {timeout_s:g} s", fix="read its log")


def _in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a thread of the operating system, for what takes seconds: Locust's heartbeats go on meanwhile.

    It must not import, and not start a process (see `EventLoop`).
    """
    found: list[T] = []

    def call() -> Exception | None:
        try:
            found.append(function(*arguments))
        except KeyboardInterrupt:
            raise GreenletExit from None  # what a thread of gevent's raises and nobody prints
        except Exception as error:  # gevent prints what else its threads raise, beside who handles it
            return error
        return None

    if (error := gevent.get_hub().threadpool.apply(call)) is not None:
        raise error
    return found[0]


def _cut_short(sending: ActiveLoad, reason: str) -> NoReturn:
    sending.interrupted = reason
    raise Stopped
