"""Functions that a thread has the event loop call: where they run, what they return and raise."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gevent
import numpy as np
import pytest

from loadgen.distributed.worker import EventLoop, with_code_in_event_loop
from servemark.workload import Tensor
from tests.support.any_workload import any_workload

MODEL = any_workload((Tensor("x", "FP32", (1,)),), (Tensor("y", "FP32", (1,)),))


def in_thread(function: Any, *arguments: Any) -> Any:
    """Call a function in a thread of gevent's pool."""
    return gevent.get_hub().threadpool.apply(function, arguments)


def test_a_call_runs_in_the_event_loop_s_thread() -> None:
    loop, here = EventLoop(), threading.get_native_id()
    assert in_thread(threading.get_native_id) != here
    assert in_thread(loop.call, threading.get_native_id) == here
    assert loop.call(threading.get_native_id) == here


def test_a_call_raises_in_the_thread_that_asked() -> None:
    with pytest.raises(ZeroDivisionError):
        in_thread(EventLoop().call, lambda: 1 / 0)


def test_all_code_of_a_workload_runs_there() -> None:
    ran: list[int] = []

    def samples(_: np.random.Generator) -> Iterator[Any]:
        for value in range(3):
            ran.append(threading.get_native_id())
            yield {"x": value}

    def read(path: Path) -> Iterator[Any]:
        ran.append(threading.get_native_id())
        return iter([{"x": path.name}])

    bound = with_code_in_event_loop(replace(MODEL, samples=samples, read=read))
    assert bound.read is not None
    assert in_thread(list, bound.samples(np.random.default_rng(0))) == [{"x": 0}, {"x": 1}, {"x": 2}]
    assert in_thread(list, bound.read(Path("a/b"))) == [{"x": "b"}]
    assert ran == [threading.get_native_id()] * 4
    assert with_code_in_event_loop(MODEL).read is None
