"""Nodes of a session on a GPU: its own profile has their launches, and torch.profiler their kernels."""

import json
from pathlib import Path

import numpy as np
import pytest

from kernels.tracing.onnx_calls import runs_of
from servemark.profiling.engines.onnxruntime import on_device_of, spans_of
from servemark.profiling.timeline import Kernel, Span, Trace, traced
from tests.support.gpu_traces import of_onnxruntime
from tests.support.onnx_models import model

BEGAN_NS = 1_795_822_497_400_024_270


def test_a_profile_on_a_gpu_tells_nothing_of_kernels() -> None:
    records = of_onnxruntime()
    assert {each["cat"] for each in records} == {"Node", "Session"}
    runs = runs_of(records)
    assert [len(run) for run in runs] == [122, 122]
    wholes = [each["dur"] for each in records if each["name"] == "model_run"]
    launches = [sum(each["dur"] for each in run) for run in runs]
    # Two thirds of a run are launches; kernels on the device have their times from elsewhere.
    assert [one / whole for one, whole in zip(launches, wholes, strict=True)] == pytest.approx([0.70, 0.71], abs=0.01)


def test_nodes_have_the_kernels_that_they_launched() -> None:
    run = runs_of(of_onnxruntime())[1]
    nodes = spans_of(run, 0.0)
    begun_us = nodes[0].start_us
    copy = Span("aten::to", 0.0, 40.0)
    kernels = [Kernel("Memcpy HtoD", 30.0, 9.0, 20.0)]
    # The trace begins 100 us before the first node, and each node launches a kernel in the middle.
    kernels += [
        Kernel(node.name, 500.0 + 10.0 * n, 5.0 + n % 3, node.start_us - begun_us + 100.0 + node.us / 2)
        for n, node in enumerate(nodes)
    ]
    kernels.append(Kernel("Memcpy DtoH", 5000.0, 4.0, 9000.0))
    trace = Trace([copy], kernels, BEGAN_NS + round(begun_us * 1e3) - 100_000)
    spans, others = on_device_of(run, BEGAN_NS, trace)
    assert [(span.name, span.us) for span in spans] == [(node.name, 5.0 + n % 3) for n, node in enumerate(nodes)]
    assert [(each.name, each.operator, each.duration_us) for each in others] == [
        ("to", "aten::to", 9.0),
        ("Memcpy DtoH", "Memcpy DtoH", 4.0),
    ]


def test_the_clocks_of_a_profile_and_of_a_trace_agree(tmp_path: Path) -> None:
    import onnxruntime
    import torch
    from onnx import helper

    made = model([helper.make_node("MatMul", ["x", "x"], ["y"], name="product")], {"x": [256, 256]}, ["y"])
    settings = onnxruntime.SessionOptions()
    settings.enable_profiling, settings.profile_file_prefix = True, str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(made.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    data, one = np.ones((256, 256), np.float32), torch.ones(1)

    def run() -> None:
        one.add(1)
        session.run(None, {"x": data})
        one.mul(2)

    trace = traced(run, "cpu")[1]
    zero_ns = session.get_profiling_start_time_ns()
    [records] = runs_of(json.loads(Path(session.end_profiling()).read_text()))
    [node] = spans_of(records, (zero_ns - trace.zero_ns) / 1e3)
    before, after = trace.operators
    assert (before.name, after.name) == ("aten::add", "aten::mul")
    assert before.start_us + before.us < node.start_us + 1.0  # the profile's times are whole microseconds
    assert node.start_us + node.us < after.start_us + 1.0
