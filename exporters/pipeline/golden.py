"""Golden samples: requests whose answers hang on no rounding, and what the reference answers.

An argmax, a top-k, a beam or a threshold turns a rounding error into another answer where two values nearly tie. So a
sample counts only if its answer stays when every weight changes by far more than engines differ. Of an imported file
the inputs change, because its weights may lie anywhere.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from servemark.errors import ArtifactError
from servemark.output import note
from servemark.repository.entry import Golden
from servemark.workload import Arrays, Sample, Workload, stack
from servemark.workload.agreement import (
    SAFETY,
    Agreement,
    OutputScale,
    compare_outputs,
    element_limits,
    flat,
    resolution_of,
    scale_of,
)

if TYPE_CHECKING:
    from torch import nn

GOLDEN_ROWS = 16
HEAVY_GOLDEN_ROWS = 4
HEAVY_FLOPS = 100e9
"""A sample above this takes eager PyTorch seconds on a few cores, so that 16 of them would take minutes."""
FEWEST_ROWS = 2
"""An export is traced with a batch of two."""
CANDIDATES = 8
"""Samples that are tried for each one wanted."""
ENGINES_DIFFER = 1e-6
"""Share by which each weight grows or shrinks to move the answers as far as another engine or instruction set does.

Over the tiny variants ONNX Runtime, OpenVINO, TensorFlow and PyTorch with AVX2 come to 2e-7 in the median, to 6e-7 in
nine of ten outputs, and to 2e-6 at most where rounding, and no smaller answer, is the cause.
"""
MARGIN = 100
"""Answers have to stay for changes this many times as large, and may move this many times as far."""
MAX_CHOICE_FLOPS = 10e12
"""Operations spent on trying samples with changed weights, two minutes of two cores; one batch is always tried."""
DIRECTIONS = (0, 1)
"""Seeds of the signs of the changes; each direction is tried with its opposite, which a near tie does not survive."""
TOGETHER = 4
"""Samples that are answered at once with changed weights."""
Moved = Callable[[Arrays, int, int], Arrays]
"""Answers inputs with something changed a little, to one side by the first number, in a direction by the second."""


def choose(model: "nn.Module", workload: Workload) -> Golden:
    """Choose samples whose answers hang on no rounding; where all outputs are fractions, the first ones.

    Raises ArtifactError if the model does not answer what its interface says.
    """
    if not discrete(workload):
        return eager(model, workload, golden_inputs(workload))
    change = ENGINES_DIFFER * MARGIN
    return clearest(
        workload,
        lambda inputs: eager(model, workload, inputs),
        _weights_moved(model, workload, change),
        _widened(workload.agreement, MARGIN),
        f"each weight changes by {change:g} of itself",
    )


def choose_answered(workload: Workload, answered: Callable[[Arrays], Arrays]) -> Golden:
    """Choose samples of an imported file as of a workload, and measure how far a rounding moves their answers."""

    def moved_by(change: float) -> Moved:
        return lambda inputs, sign, seed: answered(_inputs_moved(inputs, sign * change, seed))

    change = ENGINES_DIFFER * MARGIN
    if discrete(workload):
        golden = clearest(
            workload,
            lambda inputs: Golden(inputs, answered(inputs)),
            moved_by(change),
            _widened(workload.agreement, MARGIN),
            f"each input changes by {change:g} of itself",
        )
    else:
        inputs = golden_inputs(workload)
        golden = Golden(inputs, answered(inputs))
    return replace(golden, moves=_moves(golden, moved_by(ENGINES_DIFFER), workload.agreement))


def _moves(golden: Golden, moved: Moved, limits: Agreement) -> Arrays:
    """Measure how far each element's answers move at most, of those outputs that move by what the limits allow.

    A steep sigmoid, or the softmax of a trained model, may take a rounding error for a hundredth.
    """
    if not any(array.dtype.kind == "f" for array in golden.inputs.values()):
        return {}
    answers = [moved(golden.inputs, sign, seed) for seed, sign in itertools.product(DIRECTIONS, (1, -1))]
    found = {}
    for name, reference in golden.outputs.items():
        if reference.dtype.kind != "f" or any(each[name].shape != reference.shape for each in answers):
            continue
        theirs = flat(reference)
        with np.errstate(invalid="ignore"):
            most = np.max([np.abs(flat(each[name]) - theirs) for each in answers], axis=0)
        most = np.where(np.isfinite(most), most, 0)
        allowed = element_limits(theirs, limits, OutputScale.of(reference), resolution_of(reference))
        if (SAFETY * most > allowed).any():
            found[name] = most.astype(np.float32).reshape(reference.shape)
    return found


def clearest(
    workload: Workload, answered: Callable[[Arrays], Golden], moved: Moved, limits: Agreement, when: str
) -> Golden:
    """Draw samples until enough keep their answers within these limits when something changes.

    Fewer come back if few are that clear. If not even two are, the first samples fill them up, with a note: engines may
    then answer these differently.
    """
    stream, rows = alike(workload), golden_rows(workload)
    directions = DIRECTIONS[:1] if (workload.flops or 0) > HEAVY_FLOPS else DIRECTIONS
    most = MAX_CHOICE_FLOPS / (workload.flops or 1)  # samples that may be answered with changed weights
    found: list[Golden] = []
    unclear: list[Golden] = []
    tried = 0
    while sum(each.rows for each in found) < rows and len(found) < CANDIDATES and (not found or tried + rows <= most):
        drawn = answered(stack(list(itertools.islice(stream, rows)), workload.inputs))
        left = [list(range(rows)), *survivors(drawn, moved, limits, directions)]
        clear, tried = left[-1], tried + sum(map(len, left[:-1]))
        found.append(taken(drawn, clear))
        unclear.append(taken(drawn, [row for row in range(drawn.rows) if row not in clear]))
    chosen = _joined(found, rows)
    if chosen.rows >= FEWEST_ROWS:
        return chosen
    note(
        f"{workload.name}: {chosen.rows} of {len(found) * rows} samples keep their answers when {when}; "
        "engines may answer the golden samples differently"
    )
    return _joined([chosen, *unclear], FEWEST_ROWS)


def discrete(workload: Workload) -> bool:
    """Tell whether an output holds ids, counts or strings, which are chosen and not computed."""
    return any(tensor.dtype.kind != "f" for tensor in workload.outputs)


def survivors(golden: Golden, moved: Moved, limits: Agreement, directions: Sequence[int]) -> Iterator[list[int]]:
    """Yield the rows that are left after each change; the next one is tried on these alone."""
    scales = {name: scale_of(reference) for name, reference in golden.outputs.items()}
    rows = list(range(golden.rows))
    for seed, sign in itertools.product(directions, (1, -1)):
        if not rows:
            yield rows
            return
        asked = taken(golden, rows)
        answers = moved(asked.inputs, sign, seed)
        rows = [
            row
            for place, row in enumerate(rows)
            if all(
                answers[name].shape == reference.shape
                and compare_outputs(
                    answers[name][place : place + 1], reference[place : place + 1], limits, scales[name]
                ).agrees
                for name, reference in asked.outputs.items()
            )
        ]
        yield rows


def eager(model: "nn.Module", workload: Workload, inputs: Arrays) -> Golden:
    """Answer the inputs in eager PyTorch, row by row.

    Raises ArtifactError where the model does not answer what its interface says.
    """
    outputs = _answers(model, workload, inputs, 1)
    for tensor in workload.outputs:
        found = outputs[tensor.name]
        if found.dtype != tensor.dtype or not tensor.fits(found.shape[1:]):
            raise ArtifactError(
                f"{workload.name} answers {tensor.name} as {found.dtype} {list(found.shape[1:])}, "
                f"its interface says {tensor.dtype} {list(tensor.shape)}",
                fix=f"mend the workload file of {workload.name}",
            )
    return Golden(inputs, outputs)


def taken(golden: Golden, rows: Sequence[int]) -> Golden:
    """Take some rows."""
    chosen = list(rows)
    inputs = {name: array[chosen] for name, array in golden.inputs.items()}
    return Golden(inputs, {name: array[chosen] for name, array in golden.outputs.items()})


def golden_rows(workload: Workload) -> int:
    """The number of golden samples that a workload should have."""
    return HEAVY_GOLDEN_ROWS if (workload.flops or 0) > HEAVY_FLOPS else GOLDEN_ROWS


def golden_inputs(workload: Workload) -> Arrays:
    """Draw the first samples that share one shape, whatever is answered to them."""
    return stack(list(itertools.islice(alike(workload), golden_rows(workload))), workload.inputs)


def alike(workload: Workload) -> Iterator[Sample]:
    """Draw samples of one shape, endlessly: the first shape that comes often enough, where shapes vary."""

    def shape_of(sample: Sample) -> tuple[tuple[int, ...], ...]:
        return tuple(sample[tensor.name].shape for tensor in workload.inputs)

    stream = workload.samples(np.random.default_rng(crc32(f"golden {workload.name}".encode())))
    waiting = defaultdict(list)
    for sample in stream:
        shape = shape_of(sample)
        waiting[shape].append(sample)
        if len(waiting[shape]) == golden_rows(workload):
            yield from waiting.pop(shape)
            break
    else:
        raise AssertionError(f"the samples of {workload.name} end")
    waiting.clear()
    yield from (sample for sample in stream if shape_of(sample) == shape)


def _widened(limits: Agreement, times: float) -> Agreement:
    return replace(limits, spread_rtol=times * limits.spread_rtol, rtol=times * limits.rtol)


def _weights_moved(model: "nn.Module", workload: Workload, change: float) -> Moved:
    """Answer in eager PyTorch with changed weights."""

    def moved(inputs: Arrays, sign: int, seed: int) -> Arrays:
        with changed(model, sign * change, seed):
            return _answers(model, workload, inputs, max(1, min(workload.max_batch, TOGETHER)))

    return moved


def _inputs_moved(inputs: Arrays, share: float, seed: int) -> Arrays:
    """Let each fraction grow or shrink by a share of itself, by the signs of a seed; whole numbers stay."""
    rng = np.random.default_rng(seed)
    return {
        name: (array.astype(np.float64) * (1 + share * rng.choice((-1, 1), array.shape))).astype(array.dtype)
        if array.dtype.kind == "f"
        else array
        for name, array in inputs.items()
    }


def _answers(model: "nn.Module", workload: Workload, inputs: Arrays, size: int) -> Arrays:
    """Answer the inputs in eager PyTorch, in batches of this size."""
    import torch

    answers: list[tuple[Any, ...]] = []
    for start in range(0, len(next(iter(inputs.values()))), size):
        batch = (torch.from_numpy(inputs[tensor.name][start : start + size]) for tensor in workload.inputs)
        with torch.inference_mode():
            answer: Any = model(*batch)
        answers.append(answer if isinstance(answer, tuple) else (answer,))
    return {
        tensor.name: np.concatenate([part.numpy() for part in parts])
        for tensor, parts in zip(workload.outputs, zip(*answers, strict=True), strict=True)
    }


def _joined(parts: Sequence[Golden], rows: int) -> Golden:
    """Put parts one behind the other, and keep the first rows."""

    def one(arrays: Sequence[Arrays]) -> Arrays:
        return {name: np.concatenate([each[name] for each in arrays])[:rows] for name in arrays[0]}

    return Golden(one([each.inputs for each in parts]), one([each.outputs for each in parts]))


@contextmanager
def changed(model: "nn.Module", share: float, seed: int) -> Iterator[None]:
    """Let each weight grow or shrink by a share of itself, by the signs of a seed, and give it back as it was."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    weights = [weight for weight in model.parameters() if weight.is_floating_point()]
    kept = [weight.detach().clone() for weight in weights]
    try:
        with torch.no_grad():
            for weight in weights:
                signs = torch.randint(0, 2, weight.shape, generator=generator, dtype=torch.int8).mul_(2).sub_(1)
                weight.add_(weight * signs, alpha=share)
        yield
    finally:
        with torch.no_grad():
            for weight, before in zip(weights, kept, strict=True):
                weight.copy_(before)
