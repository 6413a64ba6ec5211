"""Golden samples: none whose answer hangs on rounding, on this CPU or another one."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from exporters.pipeline import golden
from servemark.workload import Arrays, Sample, Tensor, Workload, get
from servemark.workload.agreement import compare_outputs
from tests.support.workload_data import firm
from tests.support.zoo import exported_names

DISCRETE = [each for each in exported_names() if golden.discrete(get(each.values[0]))]
OTHER_DIRECTIONS = (100,)
"""Signs that took no part in the choice."""
SCORED = ["aoa_reader_tiny", "ranking_tiny", "summarization_tiny"]


@pytest.mark.parametrize("name", DISCRETE)
def test_golden_samples_have_no_near_ties(name: str, exported: Any) -> None:
    """The choice asks for a hundred times what engines differ by, this for a tenth of that, in another direction."""
    workload, chosen = get(name), exported(name, "onnxruntime").read_golden()
    assert chosen.rows == golden.GOLDEN_ROWS
    asked = golden.ENGINES_DIFFER * golden.MARGIN / 10
    stays = firm(workload.build(), workload, chosen, change=asked, directions=OTHER_DIRECTIONS)
    assert stays == list(range(chosen.rows))


class First(nn.Module):
    """Answers which of two numbers is larger, once both were weighed."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, pair: torch.Tensor) -> torch.Tensor:
        return (pair * self.weight).argmax(dim=1, keepdim=True).int()


def comparing(gaps: list[float], *, max_batch: int = 8) -> Workload:
    """A workload whose samples are pairs with these gaps, over and over."""

    def samples(_: np.random.Generator) -> Iterator[Sample]:
        while True:
            yield from ({"pair": np.array([1, 1 + gap], np.float32)} for gap in gaps)

    return Workload(
        name="first",
        title="first",
        inputs=(Tensor("pair", "FP32", (2,)),),
        outputs=(Tensor("larger", "INT32", (1,)),),
        max_batch=max_batch,
        build=First,
        samples=samples,
    )


def gaps_of(chosen: Any) -> set[float]:
    return {round(float(gap), 6) for gap in np.diff(chosen.inputs["pair"], axis=1)[:, 0]}


@pytest.mark.parametrize("max_batch", [1, 8])
def test_near_ties_are_left_out(max_batch: int) -> None:
    """A weight of each side moves, so that a gap survives from twice the change on, or in lucky directions before."""
    workload = comparing([0.5, 1e-5, -0.25, 3e-6, -1e-6], max_batch=max_batch)
    chosen = golden.choose(First(), workload)
    assert chosen.rows == golden.GOLDEN_ROWS
    assert gaps_of(chosen) == {0.5, -0.25}
    assert chosen.outputs["larger"][:, 0].tolist() == (chosen.inputs["pair"].argmax(axis=1)).tolist()


def test_rare_clear_samples_are_fewer_golden_ones() -> None:
    """Of 8 times 16 samples every 32nd is clear."""
    chosen = golden.choose(First(), comparing([1e-6] * 31 + [0.5]))
    assert gaps_of(chosen) == {0.5}
    assert chosen.rows == 4


def test_a_model_without_a_clear_answer_takes_its_first_samples_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = golden.choose(First(), comparing([1e-6, -1e-6]))
    assert chosen.rows == golden.FEWEST_ROWS
    assert "0 of 128 samples keep their answers" in capsys.readouterr().err


@pytest.mark.parametrize(("tflops", "samples"), [(0.001, 128), (1, 8), (4, 4)])
def test_large_models_try_fewer_samples(tflops: float, samples: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a heavy model 4 at a time, at least once, as long as those that are left may be tried too."""
    golden.choose(First(), dataclasses.replace(comparing([1e-6, -1e-6]), flops=round(tflops * 1e12)))
    assert f"0 of {samples} samples keep their answers" in capsys.readouterr().err


def test_weights_come_back_as_they_were_also_after_an_error() -> None:
    workload = comparing([0.5])
    model = First()
    chosen = golden.choose(model, workload)
    assert model.weight.tolist() == [1, 1]
    broken = dataclasses.replace(chosen, inputs={"pair": chosen.inputs["pair"][:, :0]})
    with pytest.raises(RuntimeError):
        firm(model, workload, broken)
    assert model.weight.tolist() == [1, 1]


def test_a_model_that_answers_fractions_takes_its_first_samples() -> None:
    workload = get("ncf_tiny")
    chosen = golden.choose(workload.build(), workload)
    for name, array in golden.golden_inputs(workload).items():
        np.testing.assert_array_equal(chosen.inputs[name], array)


def test_an_imported_file_s_near_ties_are_left_out_too() -> None:
    def answered(inputs: Arrays) -> Arrays:
        return {"larger": (inputs["pair"][:, 1:].astype(np.float64) > 1).astype(np.int32)}

    chosen = golden.choose_answered(comparing([0.5, 1e-5, -0.25]), answered)
    assert gaps_of(chosen) == {0.5, -0.25}
    assert (chosen.rows, dict(chosen.moves)) == (golden.GOLDEN_ROWS, {})


@pytest.mark.parametrize(("steepness", "moved"), [(1, False), (1e4, True)])
def test_what_roundings_move_is_measured(steepness: float, moved: bool) -> None:
    """A steep sigmoid, near its middle, turns a millionth into a hundredth."""
    workload = dataclasses.replace(comparing([0.5, 1e-6, -0.25]), outputs=(Tensor("larger", "FP32", (1,)),))

    def answered(inputs: Arrays) -> Arrays:
        gaps = inputs["pair"][:, 1:].astype(np.float64) - 1
        return {"larger": (1 / (1 + np.exp(-steepness * gaps))).astype(np.float32)}

    chosen = golden.choose_answered(workload, answered)
    assert chosen.rows == golden.GOLDEN_ROWS
    assert ("larger" in chosen.moves) is moved
    if moved:
        ties = np.abs(np.diff(chosen.inputs["pair"], axis=1)) < 1e-3
        assert 1e-3 < chosen.moves["larger"][ties].min() <= chosen.moves["larger"][ties].max() < 1e-2
        assert chosen.moves["larger"][~ties].max() == 0


@pytest.mark.parametrize("name", ["deepspeech_tiny", "ranking_tiny"])
def test_candidates_share_one_shape_and_differ(name: str) -> None:
    workload = get(name)
    stream = golden.alike(workload)
    drawn = [next(stream) for _ in range(40)]
    for tensor in workload.inputs:
        assert len({sample[tensor.name].shape for sample in drawn}) == 1
    assert len({tuple(sample[tensor.name].tobytes() for tensor in workload.inputs) for sample in drawn}) == 40


def test_engines_differ_by_no_more_than_the_choice_assumes(exported: Any) -> None:
    """In the middle of the scored workloads: a change of every weight moves scores further than the engine does."""
    ratios = []
    for name in SCORED:
        workload, entry = get(name), exported(name, "onnxruntime")
        manifest, chosen = entry.read_manifest(), entry.read_golden()
        score = workload.outputs[[tensor.dtype.kind for tensor in workload.outputs].index("f")].name
        model = workload.build()
        with golden.changed(model, 10 * golden.ENGINES_DIFFER, seed=0):
            moved = golden.eager(model, workload, chosen.inputs).outputs[score]
        response = compare_outputs(moved, chosen.outputs[score], workload.agreement).max_rel
        assert response is not None
        ratios.append(manifest["parity"]["batch_3"][score]["max_rel"] / (response / 10))
    assert sorted(ratios)[len(ratios) // 2] < 1
