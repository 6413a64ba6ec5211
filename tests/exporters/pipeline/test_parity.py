"""Every workload's export: parity with eager PyTorch, a manifest that describes it, a configuration for Triton."""

import dataclasses
from itertools import count, islice
from typing import Any

import numpy as np
import pytest
import torch

from exporters.pipeline import golden, parity
from exporters.pipeline.weights import remembered
from servemark.documents.request import PRECISIONS
from servemark.errors import ArtifactError
from servemark.repository.entry import Golden
from servemark.workload import Arrays, Workload, get, stack, workloads
from servemark.workload.agreement import compare_outputs, scale_of
from tests.support.exporting import FROM_TORCH, run_artifact
from tests.support.workload_data import firm
from tests.support.zoo import LIKE_ANOTHER, exported_names, tiny_names

PROGRAMS = {"din_tiny", "minigo_tiny", "ncf_tiny", "rnn_lm_tiny", "sentiment_tiny"}
"""Networks whose program of PyTorch is exported here, the others' in the slow suite: an ONNX file begins with the same
steps, of which each of these takes seconds."""
SLOW_ABOVE = 5_000_000
SLOW = {name for name, workload in workloads().items() if workload.tiny or (workload.parameters or 0) > SLOW_ABOVE}
"""Full-size workloads whose tiny variant is the same network in small, or of more parameters: in the slow suite."""
SLOW |= {f"{name}_tiny" for name in LIKE_ANOTHER}
EXPORTS = [
    pytest.param(
        name,
        engine,
        id=f"{name}-{engine}",
        marks=pytest.mark.slow if name in SLOW or (engine == "pytorch" and name not in PROGRAMS) else [],
    )
    for name in sorted([*workloads(), *tiny_names()])
    for engine in FROM_TORCH
]


@pytest.mark.parametrize(("name", "engine"), EXPORTS)
def test_artifact_answers_unseen_inputs_like_eager_pytorch_at_any_batch(exported: Any, name: str, engine: str) -> None:
    workload, entry = get(name), exported(name, engine)
    rows = 7
    drawn = islice(workload.samples(np.random.default_rng(99)), 2 * rows)
    # where sizes vary, the smaller half: the largest take a full-size model minutes
    samples = sorted(drawn, key=lambda sample: sum(array.nbytes for array in sample.values()))[:rows]
    model = workload.build()
    if weights := remembered(entry.repository, name):
        weights.load_into(model, name)
    wanted = golden.eager(model, workload, stack(samples, workload.inputs))
    if golden.discrete(workload):
        wanted = golden.taken(wanted, firm(model, workload, wanted, change=10 * golden.ENGINES_DIFFER))
    assert wanted.rows > 2
    for size in (1, 2, wanted.rows):
        answer = run_artifact(entry, {name: array[:size] for name, array in wanted.inputs.items()})
        for tensor in workload.outputs:
            whole = wanted.outputs[tensor.name]
            reference, scale = whole[:size], scale_of(whole)
            assert (answer[tensor.name].dtype, answer[tensor.name].shape) == (tensor.dtype, reference.shape)
            assert tensor.fits(reference.shape[1:])
            assert compare_outputs(answer[tensor.name], reference, workload.agreement, scale).agrees


def answered(workload: Workload) -> Golden:
    """Three samples with the answers of eager PyTorch."""
    samples = list(islice(workload.samples(np.random.default_rng(0)), 3))
    return golden.eager(workload.build(), workload, stack(samples, workload.inputs))


@pytest.mark.parametrize(("overflows", "words"), [(False, "too narrow"), (True, "a CPU with VNNI")])
def test_an_answer_that_is_off_names_the_cpu_where_it_may_be_to_blame(overflows: bool, words: str) -> None:
    workload = get("ncf_tiny")
    asked = answered(workload)

    def wrong(inputs: Arrays) -> Arrays:
        return {"scores": np.full((len(inputs["user"]), *workload.outputs[0].shape), 9, np.float32)}

    with pytest.raises(ArtifactError, match="scores at batch 1 differs") as caught:
        parity.measure(wrong, asked, workload, workload.agreement, overflows=overflows)
    assert words in str(caught.value.fix)


def test_an_artifact_that_answers_otherwise_each_time_is_told() -> None:
    workload = get("ncf_tiny")
    asked = answered(workload)
    rng = np.random.default_rng(0)

    def random(inputs: Arrays) -> Arrays:
        return {"scores": rng.random((len(inputs["user"]), *workload.outputs[0].shape), np.float32)}

    with pytest.raises(ArtifactError, match="scores at batch 1 is another each time that the same request is asked"):
        parity.measure(random, asked, workload, workload.agreement)


@pytest.mark.parametrize("first", [0, 3], ids=["at once", "when asked again"])
def test_an_artifact_whose_sizes_differ_between_samples_is_told(first: int) -> None:
    workload = get("ncf_tiny")
    asked = answered(workload)
    calls = count()

    def ragged(inputs: Arrays) -> Arrays:
        return {"scores": np.zeros((len(inputs["user"]), 20 - max(0, next(calls) - first)), np.float32)}

    with pytest.raises(
        ArtifactError, match=r"scores at batch 1 is float32 \[1, 19\], that of eager PyTorch float32 \[1, 20\]"
    ):
        parity.measure(ragged, asked, workload, workload.agreement)


@pytest.mark.parametrize(("name", "engine"), EXPORTS)
def test_entry_is_complete_and_describes_itself(exported: Any, name: str, engine: str) -> None:
    workload, entry = get(name), exported(name, engine)
    entry.require()
    manifest = entry.read_manifest()
    assert manifest is not None
    assert (manifest["workload"], manifest["engine"], manifest["precision"]) == (name, engine, "fp32")
    assert manifest["parameters"] == workload.parameters
    assert manifest["agreement"] == dataclasses.asdict(workload.agreement)
    assert manifest["versions"]["torch"] == torch.__version__.partition("+")[0]
    assert manifest["seconds"] > 0
    assert manifest["peak_rss_mib"] > 50
    assert set(manifest["parity"]) == {"batch_1", "batch_3"}
    for outputs in manifest["parity"].values():
        assert set(outputs) == {tensor.name for tensor in workload.outputs}
        assert all(each["agrees"] for each in outputs.values())
    kept = entry.read_golden()
    assert kept is not None
    assert golden.FEWEST_ROWS <= kept.rows <= golden.golden_rows(workload)
    tensors, arrays = (*workload.inputs, *workload.outputs), kept.inputs | kept.outputs
    assert {name: array.dtype for name, array in arrays.items()} == {t.name: t.dtype for t in tensors}
    assert all(tensor.fits(arrays[tensor.name].shape[1:]) for tensor in tensors)


@pytest.mark.parametrize(("name", "engine"), EXPORTS)
def test_configuration_is_what_triton_reads(exported: Any, name: str, engine: str) -> None:
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    workload, entry = get(name), exported(name, engine)
    config: Any = text_format.Parse(entry.config.read_text(), model_config_pb2.ModelConfig())
    assert (config.name, config.backend, config.max_batch_size) == (entry.model, engine, workload.max_batch)
    assert (entry.version / config.default_model_filename).is_file()
    assert config.HasField("dynamic_batching")
    assert [(g.count, g.kind) for g in config.instance_group] == [(1, model_config_pb2.ModelInstanceGroup.KIND_CPU)]
    for written, tensors in ((config.input, workload.inputs), (config.output, workload.outputs)):
        assert [(t.name, model_config_pb2.DataType.Name(t.data_type), tuple(t.dims)) for t in written] == [
            (t.name, f"TYPE_{t.datatype}", t.shape) for t in tensors
        ]


def test_commented_settings_are_valid_once_uncommented(exported: Any) -> None:
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    lines = exported("din_tiny", "onnxruntime").config.read_text().splitlines()
    assert sum(line.lstrip().startswith("# ") for line in lines) > 5
    text = "\n".join(
        line.replace("# ", "", 1) if "# max_queue" in line or "# preferred" in line or "# parameters" in line else line
        for line in lines
    )
    config: Any = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert config.dynamic_batching.max_queue_delay_microseconds == 500
    assert list(config.dynamic_batching.preferred_batch_size) == [4, 8, 16, 32]
    assert config.parameters["intra_op_thread_count"].string_value == "1"


@pytest.mark.parametrize("name", exported_names())
def test_onnx_file_is_of_the_promised_versions_and_self_contained(exported: Any, name: str) -> None:
    import onnx

    entry = exported(name, "onnxruntime")
    assert [path.name for path in entry.version.iterdir()] == ["model.onnx"]
    model = onnx.load(entry.version / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version <= 10
    assert [(opset.domain, 17 <= opset.version <= 20) for opset in model.opset_import] == [("", True)]
    for value in (*model.graph.input, *model.graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"


@pytest.mark.parametrize("name", exported_names())
def test_agreement_fails_an_engine_that_ignores_its_input(exported: Any, name: str) -> None:
    """Every output has to vary from request to request by more than its tolerance, or parity would prove nothing."""
    workload, kept = get(name), exported(name, "onnxruntime").read_golden()
    for output in kept.outputs.values():
        other = np.roll(output, 1, axis=0)
        if output.dtype.kind == "f":
            limits = [workload.agreement.at(precision) for precision in PRECISIONS]
            assert not any(compare_outputs(other, output, each).agrees for each in limits)
            continue
        told = (output != 0) | (other != 0)  # padding is the same in all rows
        one, another = output[told][:, None], other[told][:, None]
        assert compare_outputs(another, one, workload.agreement).match_share < 0.5
