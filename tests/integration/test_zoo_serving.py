"""The zoo in one real Triton: each tiny export is taken as its config.pbtxt has it, and answers like PyTorch."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2

from exporters.pipeline.config_pbtxt import SMALL_FLOPS
from servemark.repository.entry import Entry
from servemark.workload import get
from servemark.workload.agreement import compare_outputs
from servers import open_server
from tests.support.exporting import Exports
from tests.support.triton import needs_triton
from tests.support.zoo import exported_names, tiny_names

ENGINE = "onnxruntime"
START_S = 240.0
"""Each model is a process of its own, and two cores start all of them."""


def served_names() -> list[Any]:
    """A network of each kind of tensor, the others in the slow suite: each is a process that imports its engine.

    That each file is what Triton reads, the tests of exports ask of all.
    """
    seen = set[object]()
    found = []
    for each in exported_names():
        workload = get(each.values[0])
        kinds: set[object] = {workload.batched, (workload.flops or 0) < SMALL_FLOPS}
        for side, tensors in (("input", workload.inputs), ("output", workload.outputs)):
            kinds |= {(side, len(tensors) > 1)}
            kinds |= {(side, t.datatype, len(t.shape), bool(t.variable_axes)) for t in tensors}
        found.append(pytest.param(*each.values, marks=pytest.mark.slow if kinds <= seen else each.marks))
        if not each.marks:
            seen |= kinds
    return found


pytestmark = [
    needs_triton,
    pytest.mark.timeout(900),  # where this file runs alone, it makes the exports
]


@pytest.fixture(scope="module")
def entries(request: pytest.FixtureRequest, exported: Exports) -> dict[str, Entry]:
    """The exports of the workloads that were selected."""
    here = [each for each in request.session.items if isinstance(each, pytest.Function) and each.path == request.path]
    selected = {each.callspec.params["name"] for each in here}
    # From the last to the first: test_parity begins with the first, and who wants the same export waits for it.
    return {name: exported(name, ENGINE) for name in reversed(tiny_names()) if name in selected}


@pytest.fixture(scope="module")
def client(
    exported: Exports, entries: dict[str, Entry], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tritonclient.http.InferenceServerClient]:
    """Ask a Triton that serves all of them."""
    repository = exported.repository
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("log")))
        with open_server(
            "embedded", repository, [entry.model for entry in entries.values()], start_timeout_s=START_S
        ) as server:
            yield tritonclient.http.InferenceServerClient(server.http, connection_timeout=60, network_timeout=60)


@pytest.mark.parametrize("name", served_names())
def test_triton_takes_the_configuration_as_written(client: Any, entries: dict[str, Entry], name: str) -> None:
    entry = entries[name]
    written: Any = text_format.Parse(entry.config.read_text(), model_config_pb2.ModelConfig())
    taken: Any = json_format.ParseDict(client.get_model_config(entry.model), model_config_pb2.ModelConfig())
    for field in ("name", "backend", "max_batch_size", "default_model_filename", "input", "output", "parameters"):
        assert getattr(taken, field) == getattr(written, field), field
    assert taken.HasField("dynamic_batching") == written.HasField("dynamic_batching")
    assert [(g.count, g.kind) for g in taken.instance_group] == [(g.count, g.kind) for g in written.instance_group]


@pytest.mark.parametrize("name", served_names())
def test_triton_answers_like_eager_pytorch(client: Any, entries: dict[str, Entry], name: str) -> None:
    workload, golden = get(name), entries[name].read_golden()
    assert golden is not None
    rows = 3
    inputs = []
    for tensor in workload.inputs:
        array = golden.inputs[tensor.name][:rows]
        inputs.append(tritonclient.http.InferInput(tensor.name, array.shape, tensor.datatype))
        inputs[-1].set_data_from_numpy(np.ascontiguousarray(array))
    answer = client.infer(entries[name].model, inputs)
    for tensor in workload.outputs:
        array, reference = answer.as_numpy(tensor.name), golden.outputs[tensor.name][:rows]
        assert (array.dtype, array.shape) == (tensor.dtype, reference.shape)
        assert compare_outputs(array, reference, workload.agreement).agrees
