"""Locust's internals, as read in Locust 2.47.0, where it has no public interface. An upgrade has this file to check."""

import contextlib
import functools
import inspect
import logging
import time
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import gevent
import numpy as np
import numpy.typing as npt
from locust import argument_parser, log, runners, stats
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.exception import RPCError, RPCSendError
from locust.rpc import Message
from locust.rpc.zmqrpc import BaseSocket
from locust.runners import MasterRunner, Runner
from locust.stats import StatsEntry

from loadgen.sut.channel import Outcome
from servemark.errors import ExitCode

METHOD = "infer"
"""Name that Locust shows as the type of a request."""
_usual_buckets = stats.bucket_response_time


def leave_with_own_code(parser: LocustArgumentParser) -> None:
    """Have a bad flag end Locust with its own code (`parser.exit`): argparse's, 2, is ours of an invalid run."""
    leave = parser.exit
    parser.exit = lambda status=0, message=None: leave(int(ExitCode.LOCUST) if status else 0, message)


def remember_default_options() -> None:
    """Have Locust make its parser once (`argument_parser.default_args_dict`).

    It makes one for each option of each spawn message. These also come whenever another worker joins or leaves: half a
    second in which no request would go out.
    """
    vars(argument_parser)["default_args_dict"] = functools.cache(argument_parser.default_args_dict)


class _SteadyTime(ModuleType):
    """The module `time`, whose `time()` no clock that is set can move."""

    def __init__(self) -> None:
        super().__init__("time")
        vars(self).update(vars(time))
        self.time = time.monotonic


def count_heartbeats_steadily() -> None:
    """Have a Locust worker tell by a steady clock how long its master is silent (`runners.time`).

    By the wall clock a worker whose machine's clock is set an hour ahead leaves its run at once.
    """
    vars(runners)["time"] = _SteadyTime()


def pass_over_garbage() -> None:
    """Have Locust's master pass over a message that it cannot read (`BaseSocket.recv_from_client`, `handle_message`).

    Any other error ends the greenlet that reads all messages, and the master would wait for its workers for ever. A
    message is also passed over where it names another sender than the one that its connection has. A word is said of
    the first one of each kind alone: who floods a port does not fill a log.
    """
    receive, handle = BaseSocket.recv_from_client, MasterRunner.handle_message
    told: set[str] = set()

    def tell(what: str) -> None:
        if what not in told:
            told.add(what)
            logging.getLogger("locust.runners").warning("A message to the master was passed over: %s", what)

    def receive_next(socket: BaseSocket) -> tuple[str, Message]:
        while True:
            try:
                sender, message = receive(socket)  # type: ignore[no-untyped-call]
            except (RPCError, RPCSendError):
                raise
            except Exception as error:  # msgpack's own errors, and those of a list that is too short
                tell(f"it is not one of Locust's ({type(error).__name__})")
                continue
            if isinstance(message.type, str) and message.node_id == sender:
                return sender, message
            tell("it names another sender, or no type")

    def handle_or_refuse(runner: MasterRunner, sender: str, message: Message) -> None:
        failed_before = log.unhandled_greenlet_exception
        try:
            handle(runner, sender, message)
        except Exception as error:
            tell(f"it cannot be handled ({type(error).__name__})")
        # An error that a message caused is not one of this process, whose exit code would say so.
        log.unhandled_greenlet_exception = failed_before

    setattr(BaseSocket, "recv_from_client", receive_next)  # noqa: B010 - mypy refuses an assignment
    setattr(MasterRunner, "handle_message", handle_or_refuse)  # noqa: B010


def watch_on_without_descriptors() -> None:
    """Have Locust's watch over its own CPU time go on where it cannot read it (`Runner.monitor_cpu_and_memory`).

    /proc needs a descriptor, and all may be connections. Locust would print a traceback in the middle of the run.
    """
    watch = Runner.monitor_cpu_and_memory

    def watch_on(runner: Runner) -> NoReturn:
        while True:
            with contextlib.suppress(OSError):
                watch(runner)
            gevent.sleep(runners.CPU_MONITOR_INTERVAL)

    setattr(Runner, "monitor_cpu_and_memory", watch_on)  # noqa: B010 - mypy refuses an assignment


ALL_REQUESTS = (
    "Locust's tables count all requests, those of the warm-up too. servemark's figures are of the measured interval."
)


def adapt_tables() -> None:
    """Have Locust print no tables without requests, and say what the last ones count (`stats.print_stats` and others).

    Three empty tables would stand around the one line that says why a run did not start.
    """
    for name in ("print_stats", "print_percentile_stats", "print_error_report"):
        vars(stats)[name] = _of_requests(inspect.unwrap(getattr(stats, name)))  # adapted once, however often


def _of_requests(print_table: Callable[..., None]) -> Callable[..., None]:
    """Return a printer of Locust's that prints where there are requests."""

    @functools.wraps(print_table)
    def print_where_some(all_stats: stats.RequestStats, *arguments: Any, **named: Any) -> None:
        if all_stats.total.num_requests:
            if named.get("current") is False:
                stats.console_logger.info(ALL_REQUESTS)
            print_table(all_stats, *arguments, **named)

    return print_where_some


class LocustStatistics:
    """Tells the statistics of one Locust process, behind its tables, web UI, CSV files and master, of every request.

    Locust's request event takes 4.6 µs for each, more than everything else that Python does for a request here. While
    nobody but Locust's own runner listens to it, the right answers of 50 ms are added together, as Locust's master adds
    a worker's report. While anybody else listens each request is an event; failed ones always are.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._name = ""
        self._fire: Callable[..., None] = environment.events.request.fire
        self._listeners: list[Callable[..., Any]] = environment.events.request._handlers
        """A list that grows."""
        self._own = [each for each in self._listeners if getattr(each, "__module__", "") == "locust.runners"]

    def begin(self, name: str) -> None:
        """Give requests this name from now on."""
        self._name = name

    def failed(self, outcome: Outcome, words: str) -> None:
        """Take a failed request and the server's words about it."""
        # Locust keeps a counter for each text: of all messages but the first it gets the kind alone.
        said = ": ".join(filter(None, (outcome.error, words)))
        size = outcome.response.size if outcome.response is not None else 0
        self._tell((outcome.done - outcome.scheduled) / 1e6, size, said)

    def good(self, times: npt.NDArray[np.int64]) -> None:
        """Take right answers: rows of when they were scheduled, sent and done, in ns, and of their bytes."""
        latencies_ms, sizes = (times[:, 2] - times[:, 0]) / 1e6, times[:, 3]
        if self._listeners == self._own:
            self._add(latencies_ms, int(sizes.sum()))
        else:
            for latency_ms, size in zip(latencies_ms.tolist(), sizes.tolist(), strict=True):
                self._tell(latency_ms, size, None)

    def _tell(self, latency_ms: float, size: int, exception: str | None) -> None:
        """Fire Locust's event of one request."""
        self._fire(
            request_type=METHOD,
            name=self._name,
            response_time=latency_ms,
            response_length=size,
            exception=exception,
            context={},
        )

    def _add(self, latencies_ms: npt.NDArray[np.float64], size: int) -> None:
        """Add answers together."""
        kept, now = self._environment.stats, time.time()
        batch: Any = StatsEntry(kept, self._name, METHOD)  # Locust's own hints say int where its events give float
        batch.num_requests = len(latencies_ms)
        batch.num_reqs_per_sec = {int(now): len(latencies_ms)}
        batch.last_request_timestamp = now
        batch.total_response_time = float(latencies_ms.sum())
        batch.min_response_time, batch.max_response_time = float(latencies_ms.min()), float(latencies_ms.max())
        batch.response_times = _buckets(latencies_ms)
        batch.total_content_length = size
        kept.total.extend(batch)
        kept.entries[self._name, METHOD].extend(batch)


def _buckets(latencies_ms: npt.NDArray[np.float64]) -> dict[int, int]:
    """Count them as Locust does: by two significant digits, unless its user has put another function in the place."""
    if stats.bucket_response_time is not _usual_buckets:
        return Counter(map(stats.bucket_response_time, latencies_ms.tolist()))
    steps = np.array([1, 10, 100, 1000])[np.searchsorted([100, 1000, 10000], latencies_ms, side="right")]
    values, counts = np.unique(np.rint(latencies_ms / steps) * steps, return_counts=True)
    return dict(zip(values.astype(int).tolist(), counts.tolist(), strict=True))
