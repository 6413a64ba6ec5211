"""Where requests come from, and their serialisation ahead of the run."""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import Payload
from servemark import interrupts
from servemark.errors import InputDataError, parsing
from servemark.paths import DATA_ROOT
from servemark.repository.entry import Golden
from servemark.workload import Arrays, Sample, Tensor, Workload, read_npz, stack

POOL_REQUESTS = 1024
POOL_BYTES = 64 << 20
"""Distinct requests prepared ahead, at most; then they repeat."""
GOLDEN_EVERY = 50
"""One request in so many is made of golden samples, whose answer is known."""


def payloads(config: LoadConfig, encode: Callable[[Arrays], Any], golden: Golden | None) -> Iterator[Payload]:
    """An endless stream of requests: every golden one, then others with golden ones among them at a fixed share.

    `encode` makes a request of a batch's arrays, whatever the target's channels send.
    """
    batch, inputs = config.batch_size, config.workload.inputs
    named = config.scenario.samples(config.seed)
    samples = _pool(_samples(config), max(POOL_REQUESTS * batch, max(named or [0]) + 1), batch)
    if named:
        _check_samples(config, named, len(samples))
    # The samples go round until they fill whole batches.
    count = max(len(samples) // batch, 1)
    ordinary = [
        encode(stack([samples[(index * batch + row) % len(samples)] for row in range(batch)], inputs))
        for index in range(count)
    ]
    requests = [Payload(request) for request in ordinary]
    known = _known(config, encode, golden) if golden else []
    if named:
        return _ordered(named, requests, known)
    return itertools.chain(known, itertools.cycle(_interleave(requests, known) if known else requests))


def _known(config: LoadConfig, encode: Callable[[Arrays], Any], golden: Golden) -> list[Payload]:
    """The requests of golden samples."""
    batch, inputs = config.batch_size, config.workload.inputs
    rows = [tuple((first + row) % golden.rows for row in range(batch)) for first in range(0, golden.rows, batch)]
    return [
        Payload(encode({tensor.name: golden.inputs[tensor.name][list(each)] for tensor in inputs}), each)
        for each in rows
    ]


def _ordered(named: Sequence[int], ordinary: list[Payload], known: list[Payload]) -> Iterator[Payload]:
    """The requests in a trace's order, -1 for any; one in GOLDEN_EVERY is golden here too, and the warm-up's first."""
    anything, goldens = itertools.cycle(ordinary), itertools.cycle(known)
    for position, index in enumerate(named):
        if known and (position % GOLDEN_EVERY == 0 or (index < 0 and position < len(known))):
            yield next(goldens)
        else:
            yield ordinary[index] if index >= 0 else next(anything)


def _check_samples(config: LoadConfig, named: Sequence[int], held: int) -> None:
    """Check that the samples which a trace names are there. Raises InputDataError."""
    if config.batch_size > 1:
        raise InputDataError("a trace that names samples has one in each request", fix="--batch-size 1")
    if max(named) >= held:
        raise InputDataError(
            f"--trace names sample {max(named)}, and --input-data {config.input_data} gives {held} (at most "
            f"{POOL_BYTES >> 20} MiB of them)",
            fix=f"name samples from 0 to {held - 1}",
        )


def _interleave(ordinary: list[Payload], known: list[Payload]) -> list[Payload]:
    """Blocks of one golden request and GOLDEN_EVERY - 1 ordinary ones, enough that all of both occur."""
    blocks = max(-(-len(ordinary) // (GOLDEN_EVERY - 1)), len(known))
    ordinaries, goldens = itertools.cycle(ordinary), itertools.cycle(known)
    return [
        next(goldens) if position == 0 else next(ordinaries) for _ in range(blocks) for position in range(GOLDEN_EVERY)
    ]


def _pool(samples: Iterator[Sample], most: int, batch: int) -> list[Sample]:
    """Draw as many samples as fit the bounds, at least one request's."""
    taken: list[Sample] = []
    size = 0
    for sample in itertools.islice(samples, most):
        interrupts.check()
        size += sum(array.nbytes for array in sample.values())
        if size > POOL_BYTES and len(taken) >= batch:
            break
        taken.append(sample)
    return taken


def _samples(config: LoadConfig) -> Iterator[Sample]:
    """The samples that `--input-data` names. Raises InputDataError, never substitutes another source."""
    workload, source = config.workload, config.input_data
    if source == "synthetic":
        return workload.samples(np.random.default_rng(config.seed))
    if source == "dataset":
        if workload.dataset is None or workload.read is None:
            raise InputDataError(f"{workload.name} has no data set of its own", fix="--input-data synthetic, or a path")
        return _read(workload, data_path(config, workload.dataset))
    path = data_path(config, workload.dataset)
    if path.suffix == ".json":
        return _checked(path, _from_json(path, workload))
    if path.is_dir() and any(path.glob("*.npz")):
        return _checked(path, _from_npz(path, workload))
    return _read(workload, path)


def data_path(config: LoadConfig, dataset: str | None) -> Path:
    """Where the real data lie that `--input-data` names. Raises InputDataError where nothing is there."""
    if config.input_data == "dataset" and dataset is not None:
        path = config.data_root / dataset
        if not path.exists():
            elsewhere = f" --data-root {config.data_root}" if config.data_root != DATA_ROOT else ""
            raise InputDataError(
                f"the data set {dataset!r} is not in {config.data_root}", fix=f"servemark data {dataset}{elsewhere}"
            )
        return path
    path = Path(config.input_data)
    if not path.exists():
        raise InputDataError(
            f"--input-data {config.input_data}: no such file or folder", fix="synthetic, dataset, or a path"
        )
    return path


def _read(workload: Workload, path: Path) -> Iterator[Sample]:
    if workload.read is None:
        raise InputDataError(
            f"{workload.name} cannot read {path}", fix="give a perf_analyzer JSON file, or a folder of .npz files"
        )
    return _checked(path, workload.read(path))


def _checked(path: Path, samples: Iterator[Sample]) -> Iterator[Sample]:
    """The samples, of which there has to be one; no more are read than a run takes."""
    first = next(samples, None)
    if first is None:
        raise InputDataError(f"{path} holds no sample", fix="see docs for the layout of this workload's data")
    return itertools.chain([first], samples)


def _from_json(path: Path, workload: Workload) -> Iterator[Sample]:
    """perf_analyzer's input file: {"data": [{"INPUT": [values] | {"content": [values], "shape": [...]}}, ...]}."""
    with parsing(path, InputDataError, fix='perf_analyzer\'s input JSON, {"data": [...]}'):
        steps = list(json.loads(path.read_text())["data"])
    for number, step in enumerate(steps):
        # perf_analyzer also takes a list of lists: several streams of steps.
        for inputs in step if isinstance(step, list) else [step]:
            yield {tensor.name: _json_tensor(f"{path}, data[{number}]", inputs, tensor) for tensor in workload.inputs}


def _json_tensor(where: str, inputs: Any, tensor: Tensor) -> np.ndarray[Any, Any]:
    with parsing(_input(where, tensor), InputDataError):
        value = inputs[tensor.name]
        content = value["content"] if isinstance(value, dict) else value
    return _converted(where, content, tensor)


def _from_npz(folder: Path, workload: Workload) -> Iterator[Sample]:
    """One sample in each file, arrays named like the inputs, without the batch dimension."""
    for path in sorted(folder.glob("*.npz")):
        with parsing(path, InputDataError):
            arrays = read_npz(path)
        missing = [tensor.name for tensor in workload.inputs if tensor.name not in arrays]
        if missing:
            raise InputDataError(f"{path} has no array {missing[0]!r}; it holds {', '.join(arrays) or 'none'}")
        yield {tensor.name: _converted(str(path), arrays[tensor.name], tensor) for tensor in workload.inputs}


def _converted(where: str, values: Any, tensor: Tensor) -> np.ndarray[Any, Any]:
    """The values in the tensor's datatype and shape. Raises InputDataError rather than wrap or cut one off."""
    with parsing(_input(where, tensor), InputDataError), np.errstate(invalid="ignore"):
        given = np.asarray(values)
        array = given.astype(tensor.dtype)
    if tensor.dtype.kind != "f" and not np.array_equal(array, given):
        raise InputDataError(f"{_input(where, tensor)} cannot be read: its values are no {tensor.datatype}")
    try:
        return array.reshape(tensor.shape)  # one varying size follows from the others
    except ValueError:
        raise InputDataError(
            f"{where}: {tensor.name!r} has {array.size} elements, shape {list(tensor.shape)} is expected"
        ) from None


def _input(where: str, tensor: Tensor) -> str:
    return f"{where}: input {tensor.name!r} ({tensor.datatype})"
