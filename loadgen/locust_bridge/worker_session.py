"""Ties a worker's part in each run to Locust's life cycle; the master's session writes the result."""

import time
from typing import Any

import gevent
from gevent.queue import Queue
from locust.env import Environment
from locust.rpc import Message
from locust.runners import WorkerRunner

from loadgen.distributed import messages
from loadgen.distributed.worker import Worker
from loadgen.load.load_config import LoadConfig, Lookup
from loadgen.locust_bridge.locust_internals import count_heartbeats_steadily, remember_default_options
from loadgen.locust_bridge.locust_statistics import LocustStatistics
from loadgen.locust_bridge.session import INTERRUPTED_STOP_TIMEOUT_S, STOP_TIMEOUT_S
from loadgen.measurement.sender import Statistics
from servemark import interrupts
from servemark.documents.flags import OPTIONS
from servemark.documents.request import RunRequest, changed
from servemark.errors import ServemarkError
from servemark.output import stderr


class WorkerSession:
    """One Locust worker process, which takes part in each test that the master starts."""

    def __init__(self, environment: Environment, lookup: Lookup) -> None:
        self.environment = environment
        self.lookup = lookup
        assert isinstance(environment.runner, WorkerRunner)
        self.runner = environment.runner
        self.orders: Queue[messages.Message] = Queue()
        given = vars(environment.parsed_options)
        # Where files lie is each worker's own, as far as it says so; every other flag of the load is the master's.
        self.paths = {o.field: given[o.dest] for o in OPTIONS.values() if o.flag.of_host and given.get(o.dest)}
        self.statistics = LocustStatistics(environment)
        self._heartbeat: float | None = None
        self._heard_s = 0.0
        self.worker: Worker | None = None
        self.greenlet: gevent.Greenlet | None = None

    def begin(self) -> None:
        """Listen to the master; its options come with each test."""
        self.runner.register_message(messages.MESSAGE, self._on_message)
        remember_default_options()
        count_heartbeats_steadily()
        # Failed requests are the master's business: its verdict judges them.
        self.environment.process_exit_code = 0

    def start(self) -> None:
        """Take part in a run (Locust's test_start)."""
        interrupts.install()  # since the session began Locust has taken SIGTERM
        self.greenlet = gevent.spawn(self._run)

    def stop(self) -> None:
        """End the part in a run early, if there is one, and wait until its last figures are sent."""
        if self.greenlet is not None and not self.greenlet.dead and gevent.getcurrent() is not self.greenlet:
            if interrupts.requested():
                self.greenlet.join(INTERRUPTED_STOP_TIMEOUT_S)
            elif self.worker is not None:
                self.worker.stop("stopped before its end")
            self.greenlet.kill(block=True, timeout=STOP_TIMEOUT_S)

    def close(self) -> None:
        """End what is running."""
        self.stop()

    def _run(self) -> None:
        self.worker = Worker(
            self.orders,
            self._send_to_master,
            local=self._local,
            lookup=self.lookup,
            master_silent_s=self._master_silent_s,
            statistics=self._statistics_of,
        )
        try:
            self.worker.run()
        except ServemarkError as error:
            stderr.print(f"servemark: {error}", style="red")
        except KeyboardInterrupt:
            pass  # Locust, which has heard of it too, ends this process
        except Exception:  # a fault of ours, shown in full here because nobody waits for this greenlet
            stderr.print_exception()

    def _statistics_of(self, config: LoadConfig) -> Statistics:
        self.statistics.begin(config.model)
        return self.statistics

    def _on_message(self, environment: Environment, msg: Message, **_: Any) -> None:  # noqa: ARG002 - Locust's interface
        """Take an order; a ping is answered at once, since the master takes its time."""
        order: dict[str, Any] = msg.data
        if order["kind"] == "ping":
            self._send_to_master({**order, "kind": "pong", "clock_ns": time.monotonic_ns()})
        else:
            self.orders.put(order)

    def _send_to_master(self, message: dict[str, Any]) -> None:
        self.runner.send_message(messages.MESSAGE, message)

    def _local(self, request: RunRequest) -> RunRequest:
        """The load as the master has it, with the paths of this host."""
        return changed(request, **self.paths)

    def _master_silent_s(self) -> float:
        """Since its last heartbeat. Locust notes when that came by the wall clock, which may be set meanwhile."""
        heartbeat, now = self.runner.last_heartbeat_timestamp, time.monotonic()
        if heartbeat != self._heartbeat:
            self._heartbeat, self._heard_s = heartbeat, now
        return 0.0 if heartbeat is None else now - self._heard_s
