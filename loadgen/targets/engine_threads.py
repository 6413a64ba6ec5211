"""Engines in threads of this process: each takes the next request of one queue, first come first served."""

import os
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import NamedTuple, Self

from loadgen.sut.channel import Payload
from servemark import interrupts
from servemark.errors import ServerError
from servemark.workload import Arrays, Tensor
from servemark.workload.engine import Engine

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
