"""Nodes of a program have the times of the kernels that a GPU ran for them."""

import pytest

from servemark.profiling.engines.pytorch import Node, events_of
from servemark.profiling.kernels import on_device, read
from tests.support.gpu_traces import of_torch


def test_nodes_have_their_kernels_times_and_their_work() -> None:
    trace = read(of_torch())
    nodes = [Node(f"n{n}", "layer", each.name, 10 * n, n) for n, each in enumerate(trace.operators)]
    operators, _ = on_device(trace.operators, trace.kernels)
    events = events_of(operators, nodes)
    assert [event.name for event in events] == [node.name for node in nodes]
    assert [event.flops for event in events] == [node.flops for node in nodes]
    assert sum(event.duration_us for event in events) == pytest.approx(1643.8, abs=0.1)
    assert max(events, key=lambda event: event.duration_us).operator == "aten::conv2d"
