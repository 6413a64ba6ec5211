"""Targets of fuzzing, and the rule for each input: it is read or refused, in bounded time, memory and words."""

import signal
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hypothesis.strategies import SearchStrategy

CORPUS = Path(__file__).with_name("corpus")
MAX_CPU_S = 20.0
"""Of this process, not of the clock, so that a busy machine fails nothing; inputs take milliseconds."""
MAX_BYTES, MAX_BYTES_PER_BYTE = 32 << 20, 256
"""Python's objects take up to 100 times the bytes of the JSON or the protobuf that they were read from."""
MAX_WORDS = 2000
"""Characters of a refusal."""


@dataclass(frozen=True)
class Target:
    """A reader of foreign bytes. `read` asserts what must hold of what it reads, and raises what it refuses with."""

    name: str
    inputs: SearchStrategy[bytes]
    read: Callable[[bytes], object]
    refuses: tuple[type[Exception], ...] = ()
    examples: int = 100
    """Inputs in a run of the tests."""

    @property
    def corpus(self) -> Path:
        """Folder of the inputs that once broke the target, a file each."""
        return CORPUS / self.name

    def attempt(self, data: bytes) -> None:
        """Read one input. Raises AssertionError where a bound is passed, and whatever the reader should not raise."""
        tracemalloc.start()
        started = time.process_time()
        try:
            with _interrupted_after(MAX_CPU_S):
                self.read(data)
            words = ""
        except self.refuses as error:
            words = str(error)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        cpu_s = time.process_time() - started
        assert len(words) <= MAX_WORDS, f"a refusal of {len(words)} characters"
        assert cpu_s < MAX_CPU_S, f"{len(data)} bytes took {cpu_s:.1f} s"
        assert peak < MAX_BYTES + MAX_BYTES_PER_BYTE * len(data), f"{len(data)} bytes took {peak >> 20} MiB"


class _TooSlow(BaseException):
    """Passes every `except Exception` on its way."""


@contextmanager
def _interrupted_after(cpu_s: float) -> Iterator[None]:
    """End what computes for ever. Raises AssertionError."""

    def interrupt(*_: object) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    try:
        yield
    except _TooSlow:
        raise AssertionError(f"not done after {cpu_s:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
