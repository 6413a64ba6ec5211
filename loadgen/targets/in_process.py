"""An engine in this process: the framework baseline, under the same schedule as a server and without one.

A channel is an eventfd: the thread that answered makes it readable, so the driver waits for engines as it waits for
sockets.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import READ, WRITE, ConnectionFailed, Payload, State
from loadgen.sut.mismatch import Mismatch, judge_outputs
from loadgen.sut.target import Placement
from loadgen.targets.engine_threads import Call, EngineThreads, Result
from loadgen.targets.payloads import payloads
from servemark.errors import ServerError
from servemark.repository.entry import Golden
from servemark.results.schema.run import Resolved
from servemark.workload import Arrays, Tensor


class EngineChannel:
    """A channel to the threads."""

    __slots__ = (
        "_call", "_judge", "_threads", "deadline", "done", "fd", "payload", "scheduled", "sent", "state", "wants",
        "watched",
    )  # fmt: skip

    def __init__(self, threads: EngineThreads, judge: Callable[[Arrays], str | None]) -> None:
        self._threads = threads
        self._judge = judge
        self._call: Call | None = None
        self.fd = -1
        self.state = State.CLOSED
        self.wants = self.watched = 0
        self.payload: Payload | None = None
        self.scheduled = self.deadline = self.sent = self.done = 0

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

    def writable(self) -> None:
        """Never wanted: a request is queued whole."""

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

    def cancel(self) -> bool:
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


class InProcessTarget:
    """The target: what `threads` run; `options` are those that their engines were given, for the result."""

    protocol = "in-process"
    shared_memory = "none"
    decoupled = False
    connection_times = volume = clock = None
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
        """None but this one."""
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

    def statistics(self) -> dict[str, Any] | None:
        """None: there is no server."""
        return None

    def close(self) -> None:
        """Nothing: the threads serve the next run too."""

    def _judge(self, outputs: Arrays) -> str | None:
        """The kind of error of an answer, by the rules for a server's; None where it is right."""
        lead = self._config.lead

        def judge(array: npt.NDArray[np.generic], tensor: Tensor) -> str | None:
            right = array.dtype == tensor.dtype
            if right and array.shape[: len(lead)] == lead and tensor.fits(array.shape[len(lead) :]):
                return None
            kind = "wrong_shape" if right else "wrong_datatype"
            return Mismatch.of(kind, tensor, lead, f"{array.dtype}{list(array.shape)}")

        return judge_outputs(outputs, self._config.workload.outputs, lead, judge)


def _read_only(arrays: Arrays) -> Arrays:
    """A request is sent again and again: no engine may write to it."""
    for array in arrays.values():
        array.flags.writeable = False
    return arrays
