"""Each engine's profiler on a tiny model: operators that add up, with shapes, categories and modules."""

import functools
from pathlib import Path

import pytest

from servemark.errors import OptionError
from servemark.profiling import counters, measure
from servemark.profiling.categories import known
from servemark.profiling.document import engine_profile
from servemark.profiling.engines import profiler_module, profilers
from servemark.profiling.measure import Measured, Order
from servemark.profiling.timeline import wall_us
from servemark.results.schema.profile import EngineProfile
from servemark.workload import get
from servers.engines import engine_names
from servers.engines.onnxruntime import OnnxRuntime
from tests.support.exporting import Exports

ENGINES = ["onnxruntime", "openvino", "pytorch", "tensorflow"]
CONVOLUTIONS, LOOP = "resnet20_cifar_tiny", "nmt_greedy_tiny"


@pytest.fixture(scope="module")
def profiled(exported: Exports) -> "functools._lru_cache_wrapper[Measured]":
    """Profile a workload on an engine once for all tests."""

    @functools.cache
    def made(workload: str, engine: str) -> Measured:
        for each in {"onnxruntime", engine}:
            exported(workload, each)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(measure, "ROUNDS", (3, 3))
            patch.setattr(counters, "SECONDS", 0.0)
            return measure.measure(Order(workload, engine, exported.repository, batch_size=2))

    return made


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def document(found: Measured, engine: str) -> EngineProfile:
    return engine_profile(engine, found, None)


def test_every_engine_has_a_profiler() -> None:
    assert profilers() == engine_names()
    assert all(profiler_module(name).PROFILER for name in profilers())


def test_operators_lie_within_the_inference(profiled: "functools._lru_cache_wrapper[Measured]", engine: str) -> None:
    found = profiled(CONVOLUTIONS, engine)
    assert 0 < sum(wall_us(found.inference)) <= found.inference.seconds * 1e6 * 1.001
    assert found.cost["rounds"] == 3
    assert found.cost["plain_ms"] > 0


def test_operators_have_categories_and_shapes(profiled: "functools._lru_cache_wrapper[Measured]", engine: str) -> None:
    found = document(profiled(CONVOLUTIONS, engine), engine)
    assert not found["unknown_operators"]
    convolutions = [each for each in found["layers"] if each["category"] == "convolution"]
    assert len(convolutions) == 7
    expected = 2 * (get(CONVOLUTIONS).flops or 0)
    # ONNX Runtime pads channels to a block, which is more than the network's own
    assert found["flops"] is not None
    assert expected * 0.98 <= found["flops"] <= expected * (8 if engine == "onnxruntime" else 1.02)


def test_layers_are_told_their_modules(profiled: "functools._lru_cache_wrapper[Measured]", engine: str) -> None:
    found = document(profiled(CONVOLUTIONS, engine), engine)
    told = [each for each in found["layers"] if each["category"] == "convolution" and each["module"]]
    assert len(told) == 7
    assert len(found["phases"]) > 3


@pytest.mark.parametrize("looping", ["onnxruntime", "pytorch", "tensorflow"])
def test_rounds_of_a_decoder_are_phases(profiled: "functools._lru_cache_wrapper[Measured]", looping: str) -> None:
    found = document(profiled(LOOP, looping), looping)
    assert not [each for each in found["operators"] if not known(each["operator"])]
    names = [each["name"] for each in found["phases"]]
    assert {"step 1", "step 2"} <= set(names)
    assert any(name.startswith("before the steps") for name in names)


def test_a_gpu_is_refused_where_its_profiler_follows_none(exported: Exports, engine: str) -> None:
    with pytest.raises(OptionError, match="of a CPU"):
        profiler_module(engine).load(exported(CONVOLUTIONS, engine), "cuda:0", {})


def test_a_batch_that_the_workload_does_not_take() -> None:
    with pytest.raises(OptionError, match="takes batches up to"):
        Order(CONVOLUTIONS, "onnxruntime", Path(), batch_size=1 << 20).inputs()


def test_a_session_of_onnxruntime_leaves_the_cores_to_the_other_one(exported: Exports) -> None:
    exported(CONVOLUTIONS, "onnxruntime")
    order = Order(CONVOLUTIONS, "onnxruntime", exported.repository)
    profiler = profiler_module("onnxruntime").load(order.entry, "cpu", order.inputs())
    assert isinstance(profiler.engine, OnnxRuntime)
    options = profiler.engine.session.get_session_options()
    assert options.get_session_config_entry("session.force_spinning_stop") == "1"
