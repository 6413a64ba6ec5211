"""An engine in this process: the framework baseline, under the same schedule as a server and without one.

A channel is an eventfd: the thread that answered makes it readable, so the driver waits for engines as it waits for
sockets.
"""

import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import READ, WRITE, Channel, ConnectionFailed, Mismatch, Payload, State, judge_outputs
from loadgen.sut.target import Placement, Target
from loadgen.targets.payloads import payloads
from servemark import interrupts
from servemark.errors import ServerError
from servemark.repository.entry import Golden
from servemark.results.schema.run import Resolved
from servemark.workload import Arrays, Engine, Tensor

LOAD_TIMEOUT_S = 900.0
"""Building a TensorRT engine or compiling a program at its first load takes minutes."""
STOP_TIMEOUT_S = 60.0
"""Maximum wait for a thread in the middle of a batch, because a thread cannot be ended from outside."""
INTERRUPTED_STOP_TIMEOUT_S = 3.0
"""The same where a signal ends the process, and the thread with it."""


class Result(NamedTuple):
    """An engine's answer to a request."""

    outputs: Arrays
    error: str | None = None
    text: str = ""

    @property
    def size(self) -> int:
        return sum(array.nbytes for array in self.outputs.values())

    def message(self) -> str:
        return self.text

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:
        return {tensor.name: self.outputs[tensor.name] for tensor in outputs}


class Call:
    """One request between a channel and the thread that answers it; `fd` is -1 once nobody waits for it."""

    __slots__ = ("done", "fd", "payload", "result")

    def __init__(self, payload: Payload, fd: int) -> None:
        self.payload = payload
        self.fd = fd
        self.result: Result | None = None
        self.done = 0

    def answer(self, engine: Engine) -> None:
        """Run the engine and stamp when it was done; whatever it raises is the answer to this request."""
        try:
            outputs = engine.run(self.payload.request)
            self.done = time.monotonic_ns()
            if self.payload.golden_rows or self.payload.examples:
                # They are compared after the run, when the engine may have used its output buffers again.
                outputs = {name: array.copy() for name, array in outputs.items()}
            self.result = Result(outputs)
        except Exception as error:
            self.done = time.monotonic_ns()
            self.result = Result({}, "engine_error", f"{engine.name}: {error}")


class EngineThreads:
    """Engine objects, each in a thread of its own that loads it and runs it (CUDA contexts belong to threads).

    A context manager: entering calls `loaders`, one after the other, and raises what loading raised.
    """

    def __init__(self, loaders: Sequence[Callable[[], Engine]]) -> None:
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._loaded: SimpleQueue[Engine | BaseException] = SimpleQueue()
        self._threads = [Thread(target=self._work, args=[load], daemon=True) for load in loaders]
        self._waited_for = Lock()
        self.engines: list[Engine] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
            try:
                with interrupts.anywhere():
                    loaded = self._loaded.get(timeout=LOAD_TIMEOUT_S)
            except Empty:
                raise ServerError(f"the engine was not loaded after {LOAD_TIMEOUT_S:g} s") from None
            if isinstance(loaded, BaseException):
                self.close()
                raise loaded
            self.engines.append(loaded)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the threads, each after the batch it is in."""
        running = [thread for thread in self._threads if thread.is_alive()]
        for _ in running:
            self._calls.put(None)
        for thread in running:
            thread.join(INTERRUPTED_STOP_TIMEOUT_S if interrupts.requested() else STOP_TIMEOUT_S)

    def submit(self, call: Call) -> None:
        self._calls.put(call)

    def forget(self, call: Call) -> None:
        """Nobody waits for the call any more: its descriptor may be closed after this."""
        with self._waited_for:
            call.fd = -1

    def _work(self, load: Callable[[], Engine]) -> None:
        try:
            engine = load()
        except BaseException as error:
            self._loaded.put(error)
            return
        self._loaded.put(engine)
        while (call := self._calls.get()) is not None:
            if call.fd < 0:
                continue
            call.answer(engine)
            with self._waited_for:
                if call.fd >= 0:
                    os.eventfd_write(call.fd, 1)


class EngineChannel(Channel):
    """A channel to the threads."""

    __slots__ = ("_call", "_judge", "_threads")

    def __init__(self, threads: EngineThreads, judge: Callable[[Arrays], str | None]) -> None:
        super().__init__()
        self._threads, self._judge = threads, judge
        self._call: Call | None = None

    def open(self) -> None:
        """Make the eventfd. Raises ConnectionFailed where the process has no descriptor left."""
        try:
            self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError as error:
            kind = "too_many_open_files" if error.errno == errno.EMFILE else "eventfd_error"
            raise ConnectionFailed(kind, os.strerror(error.errno or 0)) from error
        self.state = State.CONNECTING
        self.wants = WRITE

    def connected(self) -> None:
        self.state = State.IDLE
        self.wants = READ

    def start(self) -> None:
        assert self.payload is not None
        self.state = State.BUSY
        self._call = Call(self.payload, self.fd)
        self._threads.submit(self._call)

    def readable(self) -> Result:
        """Take the answer; it was complete when the engine returned, however late this thread comes to it."""
        os.eventfd_read(self.fd)
        call, self._call = self._call, None
        assert call is not None
        assert call.result is not None
        self.done = call.done
        self.state = State.IDLE
        result = call.result
        error = result.error or self._judge(result.outputs)
        return result._replace(error=error) if error else result

    def on_unsolicited_data(self) -> bool:
        """Never: only a thread with a call makes the eventfd readable."""
        return False

    def close(self) -> None:
        """Close the eventfd; a thread that still computes finds nobody waiting."""
        if self._call is not None:
            self._threads.forget(self._call)
            self._call = None
        if self.state is not State.CLOSED:
            os.close(self.fd)
        self.state = State.CLOSED
        self.wants = self.watched = 0
        self.fd = -1


class InProcessTarget(Target):
    """The target: what `threads` run; `options` are those that their engines were given, for the result."""

    protocol = "in-process"
    local = True
    no_statistics = "in-process: there is no server"

    def __init__(self, config: LoadConfig, threads: EngineThreads, options: Mapping[str, str]) -> None:
        self.config: Resolved = {
            **config.resolved(),
            "url": None,
            "instances": len(threads.engines),
            "engine_options": dict(options),
        }
        self._config = config
        self._threads = threads

    def processes(self) -> list[int]:
        return []

    def prepare(self) -> Placement:
        """Read back where the engines run. Raises ServerError where they were not started."""
        if not self._threads.engines:
            raise ServerError("no engine is loaded")
        engine = self._threads.engines[0]
        devices = dict.fromkeys(each.device for each in self._threads.engines)
        # Its configuration is the run's own: instances and engine_options.
        return Placement(engine.name, ",".join(devices), engine.provider, {})

    def payloads(self, golden: Golden | None) -> Iterator[Payload]:
        return payloads(self._config, self.encoder(), golden)

    def encoder(self) -> Callable[[Arrays], Any]:
        return _read_only

    def connect(self, server: int = 0) -> EngineChannel:  # noqa: ARG002 - there is none
        return EngineChannel(self._threads, self._judge)

    def _judge(self, outputs: Arrays) -> str | None:
        """The kind of error of an answer, by the rules for a server's; None where it is right."""
        return judge_outputs(outputs, self._config.workload.outputs, self._config.lead, _judge_array)


def _judge_array(array: npt.NDArray[np.generic], tensor: Tensor, lead: Sequence[int]) -> str | None:
    right = array.dtype == tensor.dtype
    if right and array.shape[: len(lead)] == tuple(lead) and tensor.fits(array.shape[len(lead) :]):
        return None
    kind = "wrong_shape" if right else "wrong_datatype"
    return Mismatch.of(kind, tensor, lead, f"{array.dtype}{list(array.shape)}")


def _read_only(arrays: Arrays) -> Arrays:
    """A request is sent again and again: no engine may write to it."""
    for array in arrays.values():
        array.flags.writeable = False
    return arrays
