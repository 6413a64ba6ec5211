"""Ties a measurement, or a worker's part in it, to Locust's life cycle: start, progress, stop, result, exit code."""

import json
import logging
import socket
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gevent
from gevent.queue import Queue
from locust.env import Environment
from locust.rpc import Message
from locust.runners import MasterRunner, WorkerRunner
from locust.util.timespan import parse_timespan

from loadgen.distributed.master import Master
from loadgen.distributed.messages import MESSAGE
from loadgen.distributed.worker import Worker
from loadgen.evaluation.evidence import error_details, so_far
from loadgen.evaluation.measured_run import record
from loadgen.load.load_config import LoadConfig, Lookup, Order
from loadgen.locust_bridge.locust_internals import (
    LocustStatistics,
    count_heartbeats_steadily,
    pass_over_garbage,
    remember_default_options,
)
from loadgen.locust_bridge.result_page import ResultPage, SoFar, guard
from loadgen.measurement.measurement import Load, Measurement
from loadgen.measurement.sender import Sender, Statistics
from loadgen.sut.target import Target
from loadgen.targets.open import open_target
from loadgen.transport.server_url import METRICS
from servemark import interrupts
from servemark.documents.flags import OPTIONS, from_locust
from servemark.documents.request import RunRequest, changed
from servemark.errors import ExitCode, OptionError, ServemarkError, ServerError, of_the_system
from servemark.output import note, printable, stderr
from servemark.views.live import ended, progress

pass_over_garbage()

START_TIMEOUT_S = 180.0
"""Maximum wait for the server of `--serve`."""
_POLL_S = 0.1
STOP_TIMEOUT_S = 15.0
INTERRUPTED_STOP_TIMEOUT_S = 5.0
"""A run that a signal ends does so by itself, at a line where nothing is half done; after this it is killed."""


class ServeProcess:
    """Starts `servemark serve` on free ports for `--serve`, and waits until the model is ready. Raises ServerError.

    It is a process of its own, because the stages meet only through a URL.
    """

    def __init__(self, config: LoadConfig) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="servemark-serve-")
        self._ready, self._errors = Path(self._folder.name, "ready.json"), Path(self._folder.name, "errors")
        command = [sys.executable, "-m", "servemark", "serve", config.workload.name]
        command += ["--engine", config.engine, "--precision", config.precision]
        command += ["--model-repository", str(config.model_repository), "--json", "--with-parent"]
        command += ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
        with self._ready.open("w") as ready, self._errors.open("w") as errors:
            self._process = subprocess.Popen(command, stdout=ready, stderr=errors, stdin=subprocess.DEVNULL)
        try:
            served = self._wait()
        except BaseException:
            self.stop()
            raise
        url = f"grpc://{served['grpc']}" if config.protocol == "grpc" else served["url"]
        self.url: str = f"{url}{METRICS}{served['metrics']}"

    def _wait(self) -> dict[str, Any]:
        """`serve --json` prints one document with its URLs when the model is ready."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            text = self._ready.read_text()
            if text.endswith("\n"):
                document: dict[str, Any] = json.loads(text)
                return document
            if self._process.poll() is not None:
                raise ServerError(f"the server did not start:\n{self._errors.read_text().strip()}")
            interrupts.sleep(_POLL_S)
        raise ServerError(f"the server was not ready after {START_TIMEOUT_S:g} s:\n{self._errors.read_text().strip()}")

    def stop(self) -> None:
        """Stop the server, and wait until it is gone."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)
        self._folder.cleanup()


class Session:
    """One Locust process. Each test that Locust starts (headless: one) is one measurement with one result."""

    def __init__(self, environment: Environment, lookup: Lookup) -> None:
        self.environment = environment
        assert environment.parsed_options is not None  # it is where Locust is used as a library
        self.options = environment.parsed_options
        self.lookup = lookup
        self.order: Order | None = None
        self.server: ServeProcess | None = None
        self.measurement: Measurement | None = None
        self.page = ResultPage()
        self.statistics = LocustStatistics(environment)
        self.greenlet: gevent.Greenlet | None = None
        self.stopping = self.leaving = False

    def begin(self) -> None:
        """Check the options before anything starts, and start the server where `--serve` asks for it."""
        if self.options.headless and self.options.run_time:
            self._take_run_time()
        if self.options.request_file:
            self.order = Order.take(Path(self.options.request_file))
        config = self._resolve()
        if question := config.scenario.question:
            note(question)
        if self.environment.web_ui is not None:
            _require_free(self.options.web_host, self.options.web_port)
        if self.options.headless:
            # All connections at once, and the measurement, not Locust's timer, ends the run.
            self.options.num_users = config.concurrency or 1
            self.options.spawn_rate = self.options.num_users
            self.options.run_time = None
        if self.options.serve:
            self.server = ServeProcess(config)
        if isinstance(self.environment.runner, MasterRunner):
            self.environment.runner.register_message(MESSAGE, self._on_message)
        # The web UI shows the host that a test will ask.
        self.options.host = self.environment.host = self.server.url if self.server else config.address
        if self.environment.web_ui is not None:
            guard(self.environment.web_ui, self.options)
            self.page.publish(self.environment.web_ui, self.options.web_base_path)

    def _resolve(self) -> LoadConfig:
        """The run that the caller has ordered, else the one that the options ask for. Raises ServemarkError."""
        if self.order is not None:
            return LoadConfig.ordered(self.order, self.lookup)
        request = from_locust(self.options)
        if self.server is None or request.server.url != self.server.url:
            return LoadConfig.of(request, self.lookup)
        # A server of this session's own was not asked for by its address, which a rerun will not have.
        return LoadConfig.of(changed(request, url=""), self.lookup, address=self.server.url)

    def _take_run_time(self) -> None:
        """Locust's --run-time is the measured duration. Raises OptionError where --duration says otherwise."""
        given, usual = self.options.duration, OPTIONS["duration"].value
        if given != usual:
            raise OptionError(f"--run-time and --duration {given}", fix="give one of them")
        run_time = self.options.run_time
        self.options.duration = str(parse_timespan(run_time) if isinstance(run_time, str) else run_time)

    def start(self) -> None:
        """Begin a measurement (Locust's test_start)."""
        interrupts.install()  # since the session began Locust has taken SIGTERM
        self.stopping, self.measurement = False, None
        self.page.begin(self._so_far)
        self.greenlet = gevent.spawn(self._run)

    def stop(self) -> None:
        """End the measurement early, if one is running, and wait for its result."""
        if self.greenlet is None or self.greenlet.dead or gevent.getcurrent() is self.greenlet:
            return
        self.stopping = True
        if interrupts.requested():
            self.greenlet.join(INTERRUPTED_STOP_TIMEOUT_S)
        elif self.measurement is not None:
            self.measurement.stop("stopped before its end")
        self.greenlet.kill(block=True, timeout=STOP_TIMEOUT_S)

    def close(self) -> None:
        """End what is running, and stop the server that this session started."""
        self.leaving = True
        self.stop()
        if self.server is not None:
            self.server.stop()
            self.server = None

    def _run(self) -> None:
        # A run that is killed before it measured anything was not a success.
        code = ExitCode.INVALID
        self.environment.process_exit_code = int(code)
        try:
            code = self._measure()
        except ServemarkError as error:
            self._tell(error)
            code = error.exit_code
        except KeyboardInterrupt:
            code = ExitCode.INVALID
        except Exception as error:
            words = of_the_system(error)
            code = words.exit_code if words else ExitCode.INTERNAL
            if words:
                self._tell(words)
            else:
                stderr.print_exception()
        finally:
            self.environment.process_exit_code = int(code)
            self.page.end()
            self._quit()

    def _quit(self) -> None:
        """End Locust's own run, unless it is Locust that ends this one."""
        runner = self.environment.runner
        # Where Locust itself ends the run it needs no telling, but a master that has lost its last worker stays.
        deserted = self.options.headless and isinstance(runner, MasterRunner) and not self.leaving
        if runner is not None and (deserted or not self.stopping):
            if self.options.headless:
                runner.quit()
            else:
                runner.stop()

    def _measure(self) -> ExitCode:
        config = self._resolve()
        target = open_target(config)
        measurement = Measurement(config, target, self._load(config, target), on_progress=progress(config))
        self.measurement = measurement
        return ExitCode(record(measurement, self.page.written, ended)["verdict"]["exit_code"])

    def _load(self, config: LoadConfig, target: Target) -> Load:
        """Return the sender of the load: this process, or the workers of this master."""
        runner = self.environment.runner
        if isinstance(runner, MasterRunner):
            return Master(config, runner)
        self.statistics.begin(config.model)
        return Sender(config, target, statistics=self.statistics)

    def _on_message(self, environment: Environment, msg: Message, **_: Any) -> None:  # noqa: ARG002 - Locust's interface
        """Take a worker's message to this master."""
        load = self.measurement and self.measurement.load
        if isinstance(load, Master):
            load.on_message(msg.node_id, msg.data)

    def _so_far(self) -> SoFar | None:
        measurement = self.measurement
        if measurement is None or measurement.measured is None:
            return None
        recorder = measurement.measured.recorder
        return *so_far(measurement.config, recorder), error_details(recorder)

    def _tell(self, error: ServemarkError) -> None:
        """Say what is wrong where the user looks: the web UI and its log, which the terminal shows too, or there."""
        self.page.failed(str(error))
        if self.environment.web_ui is not None:
            logging.getLogger("locust").error("servemark: %s", printable(str(error)))
        else:
            stderr.print(f"servemark: {error}", style="red")


def add_own_arguments(parser: ArgumentParser) -> None:
    """Add the flags that only locustfiles have."""
    hidden: dict[str, Any] = {"include_in_web_ui": False}
    parser.add_argument("--serve", action="store_true", help="Start Triton for this run, and stop it after.", **hidden)
    parser.add_argument(
        "--request", dest="request_file", metavar="FILE", default="", help="The run as its caller orders it.", **hidden
    )


def _require_free(host: str, port: int) -> None:
    """Locust's web UI would end with a traceback where its port is taken. Raises OptionError."""
    place = "" if host == "*" else host
    with socket.socket(socket.AF_INET6 if ":" in place else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((place, port))
            listener.listen(1)
        except OSError as error:
            raise OptionError(
                f"the web UI cannot listen on {host}:{port}: {error.strerror}", fix="--web-port PORT, or --headless"
            ) from error


class WorkerSession:
    """One Locust worker process, which takes part in each test that the master starts."""

    def __init__(self, environment: Environment, lookup: Lookup) -> None:
        self.environment = environment
        self.lookup = lookup
        assert isinstance(environment.runner, WorkerRunner)
        self.runner = environment.runner
        self.orders: Queue[Mapping[str, Any]] = Queue()
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
        self.runner.register_message(MESSAGE, self._on_message)
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
        self.runner.send_message(MESSAGE, message)

    def _local(self, request: RunRequest) -> RunRequest:
        """The load as the master has it, with the paths of this host."""
        return changed(request, **self.paths)

    def _master_silent_s(self) -> float:
        """Since its last heartbeat. Locust notes when that came by the wall clock, which may be set meanwhile."""
        heartbeat, now = self.runner.last_heartbeat_timestamp, time.monotonic()
        if heartbeat != self._heartbeat:
            self._heartbeat, self._heard_s = heartbeat, now
        return 0.0 if heartbeat is None else now - self._heard_s
