"""Each engine's profiler on a tiny model: operators that add up, with shapes, categories and modules."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from servemark.profiling import engines, measure, timeline
from servemark.profiling.document import engine_profile
from servemark.profiling.engines import profiler_module, profilers
from servemark.profiling.engines.pytorch import Node, events_of
from servemark.profiling.engines.tensorrt import operator_of
from servemark.profiling.measure import Measured, Order
from servemark.profiling.operators import category_of, known
from servemark.profiling.timeline import Inference, Kernel, Trace, on_device, read, wall_us
from servemark.repository.entry import Entry
from servemark.workload import Engine, get
from servers.engines import engine_names
from servers.engines.onnxruntime import OnnxRuntime
from tests.support.exporting import Exports
from tests.support.gpu_traces import of_torch

Made = Callable[[str, str], Measured]
ENGINES = ["onnxruntime", "openvino", "pytorch", "tensorflow"]
CONVOLUTIONS, LOOP = "resnet20_cifar_tiny", "nmt_greedy_tiny"


@pytest.fixture(scope="module")
def profiled(exported: Exports) -> Made:
    """Profile a workload on an engine once for all tests."""

    @functools.cache
    def made(workload: str, engine: str) -> Measured:
        for each in {"onnxruntime", engine}:
            exported(workload, each)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(measure, "ROUNDS", (3, 3))
            patch.setattr(measure, "SECONDS", 0.0)
            return measure.measure(Order(workload, engine, exported.repository, batch_size=2))

    return made


def test_every_engine_has_a_profiler() -> None:
    assert profilers() == engine_names()
    assert {name: [*profiler_module(name).PROFILERS] for name in profilers()} == {
        "onnxruntime": ["cpu", "cuda"],
        "openvino": ["cpu"],
        "pytorch": ["cpu", "cuda"],
        "tensorflow": ["cpu"],
        "tensorrt": ["cuda"],
        "tensorrt_rtx": ["cuda"],
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_operators_lie_within_the_inference_with_categories_shapes_and_modules(profiled: Made, engine: str) -> None:
    measured = profiled(CONVOLUTIONS, engine)
    assert 0 < sum(wall_us(measured.inference)) <= measured.inference.seconds * 1e6 * 1.001
    assert (measured.cost["rounds"], measured.cost["plain_ms"] > 0) == (3, True)
    found = engine_profile(engine, measured, None)
    assert not found["unknown_operators"]
    modules = [each["module"] for each in found["layers"] if each["category"] == "convolution"]
    assert (len(modules), all(modules), len(found["phases"]) > 3) == (7, True, True)
    expected = 2 * (get(CONVOLUTIONS).flops or 0)
    # ONNX Runtime pads channels to a block, which is more than the network's own
    assert found["flops"] is not None
    assert expected * 0.98 <= found["flops"] <= expected * (8 if engine == "onnxruntime" else 1.02)


@pytest.mark.parametrize("looping", ["onnxruntime", "pytorch", "tensorflow"])
def test_rounds_of_a_decoder_are_phases(profiled: Made, looping: str) -> None:
    found = engine_profile(looping, profiled(LOOP, looping), None)
    assert not [each for each in found["operators"] if not known(each["operator"])]
    names = [each["name"] for each in found["phases"]]
    assert {"step 1", "step 2"} <= set(names)
    assert any(name.startswith("before the steps") for name in names)


def test_a_session_of_onnxruntime_leaves_the_cores_to_the_other_one(exported: Exports) -> None:
    exported(CONVOLUTIONS, "onnxruntime")
    order = Order(CONVOLUTIONS, "onnxruntime", exported.repository)
    profiler = profiler_module("onnxruntime").Profiler(order.entry, "cpu", order.inputs())
    assert isinstance(profiler.engine, OnnxRuntime)
    options = profiler.engine.session.get_session_options()
    assert options.get_session_config_entry("session.force_spinning_stop") == "1"


@pytest.fixture(params=["onnxruntime", "pytorch"])
def on_gpu(request: pytest.FixtureRequest, exported: Exports, monkeypatch: pytest.MonkeyPatch) -> Inference:
    """An inference on a CPU that is taken for a GPU: PyTorch's operators launch a kernel each, ONNX Runtime's none."""
    engine = str(request.param)
    for each in {"onnxruntime", engine}:
        exported(CONVOLUTIONS, each)

    def traced(run: Callable[[], object], _: str) -> tuple[float, Trace]:
        seconds, trace = timeline.traced(run, "cpu")
        launched = [Kernel("kernel", 1e3 * n, 5.0, each.start_us) for n, each in enumerate(trace.operators)]
        return seconds, Trace(trace.operators, [*launched, Kernel("unseen", 1e6, 7.0, None)], trace.zero_ns)

    module = profiler_module(engine)
    monkeypatch.setattr(module, "traced", traced)
    order = Order(CONVOLUTIONS, engine, exported.repository)
    profiler: Any = module.Profiler(order.entry, "cpu", order.inputs())
    profiler.engine.device = "cuda:0"
    profiler.profiled(order.inputs())
    profiler.forget()
    profiler.profiled(order.inputs())
    found: list[Inference] = profiler.inferences()
    assert len(found) == 1
    return found[0]


def test_on_a_gpu_operators_have_the_times_of_their_kernels(on_gpu: Inference) -> None:
    *operators, unseen = on_gpu.events
    assert (unseen.name, unseen.duration_us, unseen.flops) == ("unseen", 7.0, 0)
    convolutions = [event for event in operators if category_of(event.operator) == "convolution"]
    assert len(convolutions) == 7
    assert all(event.flops and event.module for event in convolutions)
    assert {event.duration_us for event in operators} == {5.0 if "aten::" in operators[0].operator else 0.0}
    assert sum(wall_us(on_gpu)) == pytest.approx(sum(event.duration_us for event in on_gpu.events))


@pytest.mark.parametrize("graphs", [False, True])
def test_a_session_that_is_profiled_replays_no_graphs(
    exported: Exports, monkeypatch: pytest.MonkeyPatch, graphs: bool
) -> None:
    entry, asked = exported(CONVOLUTIONS, "onnxruntime"), list[Any]()

    def loaded(entry: Entry, device: str, options: Mapping[str, str]) -> Engine:
        asked.append(options.get("cuda_graph"))
        return engines.loaded(entry, device, options)

    monkeypatch.setattr(OnnxRuntime, "keeps_graphs", graphs)
    monkeypatch.setattr(profiler_module("onnxruntime"), "loaded", loaded)
    profiler_module("onnxruntime").Profiler(
        entry, "cpu", Order(CONVOLUTIONS, "onnxruntime", exported.repository).inputs()
    )
    assert asked == [None, *["false" if graphs else None] * 2]


def test_nodes_have_their_kernels_times_and_their_work() -> None:
    trace = read(of_torch())
    nodes = [Node(f"n{n}", "layer", each.name, 10 * n, n) for n, each in enumerate(trace.operators)]
    operators, _ = on_device(trace.operators, trace.kernels)
    events = events_of(operators, nodes)
    assert [event.name for event in events] == [node.name for node in nodes]
    assert [event.flops for event in events] == [node.flops for node in nodes]
    assert sum(event.duration_us for event in events) == pytest.approx(1643.8, abs=0.1)
    assert max(events, key=lambda event: event.duration_us).operator == "aten::conv2d"


@pytest.mark.parametrize(
    ("layer", "operator"),
    [
        ("node_Conv_754 + node_relu", "Conv"),
        ("PWN(PWN(node_Sigmoid_3), node_Mul_4)", "Sigmoid"),
        ("Reformatting CopyNode for Input Tensor 0", "Reformatting CopyNode for Input Tensor 0"),
    ],
)
def test_the_operator_of_a_fused_layer(layer: str, operator: str) -> None:
    assert operator_of(layer) == operator
