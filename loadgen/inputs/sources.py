"""The samples of a run's requests from the place that --input-data names: generated, read, or with their labels."""

import itertools
import math
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.inputs.files import Step, from_npz, from_npz_folder, from_raw, has_validation, raw_files, read_steps
from loadgen.load.load_config import LoadConfig
from servemark import datasets
from servemark.documents.request import DATASET, DRAWN, SYNTHETIC, Inputs
from servemark.errors import InputDataError, OptionError
from servemark.paths import DATA_ROOT
from servemark.quality import ctc
from servemark.quality.metrics import Metric, metric_named
from servemark.quality.scoring import chosen
from servemark.repository.entry import Golden
from servemark.workload import Arrays, LabelledSet, Quality, Sample, Tensor, Workload

GENERATED = (SYNTHETIC, *DRAWN)
_FORMATS = "perf_analyzer's JSON or folder of raw files, a .npz file or a folder of them"


def samples_of(config: LoadConfig) -> Iterator[Sample]:
    """The samples that `--input-data` names. Raises InputDataError, never substitutes another source."""
    source, workload = config.input_data, config.workload
    is_drawn = source in DRAWN or (workload.served and source == SYNTHETIC)
    if (config.inputs.shape or config.inputs.input_range) and not is_drawn:
        raise InputDataError(
            f"--shape and --input-range are for inputs that are drawn at random, not for --input-data {source}",
            fix="add --input-data random, or leave them out",
        )
    if source in GENERATED:
        return _generated(config)
    if source == DATASET:
        if workload.dataset is None or workload.read is None:
            raise InputDataError(f"{workload.name} has no data set of its own", fix="--input-data synthetic, or a path")
        path = data_path(config, workload.dataset)
        return _checked(path, workload.read(path))
    return samples_at(data_path(config, workload.dataset), workload)


def samples_at(path: Path, workload: Workload) -> Iterator[Sample]:
    """The samples of a user's file or folder, in the formats that we know or the workload reads.

    Raises InputDataError.
    """
    return _checked(path, _of_path(path, workload))


def data_path(config: LoadConfig, dataset: str | None) -> Path:
    """Return the path of the real data that `--input-data` names. Raises InputDataError if nothing is there."""
    if config.input_data == DATASET:
        if dataset is None:
            raise InputDataError(f"{config.workload.name} has no data set of its own", fix="--input-data PATH")
        path = config.data_root / dataset
        if not path.exists():
            elsewhere = f" --data-root {config.data_root}" if config.data_root != DATA_ROOT else ""
            fetched = f"servemark data {dataset}{elsewhere}"
            by_hand = f"it cannot be fetched: lay it out in {path}, as docs/reference/models.md says"
            raise InputDataError(
                f"the data set {dataset!r} is not in {config.data_root}",
                fix=fetched if dataset in datasets.available() else by_hand,
            )
        return path
    path = Path(config.input_data)
    if not (path.is_file() or path.is_dir()):
        what = "neither a regular file nor a folder" if path.exists() else "no such file or folder"
        raise InputDataError(
            f"--input-data {config.input_data}: {what}",
            fix=f"{', '.join(GENERATED)}, dataset, or a path",
        )
    return path


def _generated(config: LoadConfig) -> Iterator[Sample]:
    rng, tensors = np.random.default_rng(config.seed), config.workload.inputs
    if config.input_data == "random":
        return random_samples(tensors, config.inputs, rng)
    if config.input_data == "zero":
        return zero_samples(tensors, config.inputs)
    return config.workload.samples(rng)


def _of_path(path: Path, workload: Workload) -> Iterator[Sample]:
    """The samples of a user's file or folder: those of formats that we know, else as the workload reads it."""
    if path.suffix == ".json":
        return (step.inputs for step in read_steps(path, workload))
    if path.suffix == ".npz" and path.is_file():
        return from_npz(path, workload)
    if path.is_dir() and any(path.glob("*.npz")):
        return from_npz_folder(path, workload)
    if path.is_dir() and (files := raw_files(path, workload)):
        return from_raw(files, workload)
    if workload.read is None:
        raise InputDataError(
            f"{workload.name} cannot read {path}",
            fix=f"give {_FORMATS}",
        )
    return _read_by(workload.read, path)


def _read_by(read: Callable[[Path], Iterator[Sample]], path: Path) -> Iterator[Sample]:
    """The samples as a workload reads them; where its files are not there, the other formats are named, too."""
    try:
        yield from read(path)
    except InputDataError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        raise InputDataError(error.what, fix="; or ".join(filter(None, [error.fix, _FORMATS]))) from error


def golden_of(config: LoadConfig) -> Golden | None:
    """The samples whose right outputs are known: validation_data's, else those of the local export.

    Raises ArtifactError, InputDataError.
    """
    path = Path(config.input_data)
    if has_validation(path):
        return _golden(list(read_steps(path, config.workload)))
    return None if config.workload.served else config.entry.read_golden()


def _golden(steps: Sequence[Step]) -> Golden:
    """The steps as rows. Raises InputDataError where they differ in tensors or shapes."""
    if not steps or not steps[0].outputs:
        raise InputDataError("validation_data names no output")
    expected = _shapes(steps[0])
    for step in steps:
        if (shapes := _shapes(step)) != expected:
            raise InputDataError(
                f"{step.where} differs from the first step in tensors or shapes: {shapes}, not {expected}",
                fix="validation_data is compared in steps of one shape: split the file",
            )
    inputs = _rows([step.inputs for step in steps])
    return Golden(inputs, _rows([step.outputs or {} for step in steps]), "validation_data")


def _shapes(step: Step) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in {**step.inputs, **(step.outputs or {})}.items()}


def _rows(samples: Sequence[Sample]) -> Arrays:
    return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}


def _checked(path: Path, samples: Iterator[Sample]) -> Iterator[Sample]:
    """The samples, of which there has to be one; no more are read than a run takes."""
    first = next(samples, None)
    if first is None:
        raise InputDataError(f"{path} holds no sample", fix="see docs for the layout of this workload's data")
    return itertools.chain([first], samples)


def metric_of(config: LoadConfig) -> tuple[Metric, Quality]:
    """The metric of a configuration's workload, and what its target is of. Raises OptionError."""
    quality = config.workload.quality
    if quality is None:
        if config.workload.source:
            raise OptionError(
                f"{config.workload.name} is an imported file, and such have neither labels nor a metric",
                fix="a workload file of a few lines adds both: docs/guides/own_model.md, Labels",
            )
        raise OptionError(
            f"{config.workload.name} names no metric", fix='its workload file: quality=Quality("top-1", ...)'
        )
    return metric_named(quality.metric), quality


def labelled_set(config: LoadConfig) -> LabelledSet:
    """The labelled data that `--input-data` names, with what decodes the answers.

    Raises InputDataError, also where there are no labels, and OptionError where a language model has nothing to decode.
    """
    workload = config.workload
    if workload.labelled is None:
        reason = f": {workload.quality.unmeasured}" if workload.quality and workload.quality.unmeasured else ""
        raise InputDataError(
            f"no labels can be read for {workload.name}{reason}",
            fix="docs/guides/own_model.md, Quality, says which workloads have them",
        )
    if config.input_data in GENERATED:
        raise InputDataError(f"{config.input_data} requests have no labels", fix="--input-data dataset, or a path")
    path = data_path(config, workload.dataset)
    data = workload.labelled(path)
    if not data.size:
        raise InputDataError(f"{path} holds no labelled example", fix="docs/guides/own_model.md has the layout")
    if data.alphabet:
        decode = ctc.decoder(data.alphabet, config.language_model)
        return replace(data, prediction=lambda outputs, label: decode(data.prediction(outputs, label)))
    if config.language_model:
        raise OptionError(
            f"{workload.name} answers no log-probabilities, which --language-model decodes",
            fix="deepspeech_ctc does; or leave it out",
        )
    return data


def scorable(config: LoadConfig, most: int) -> tuple[LabelledSet, Sequence[int]]:
    """The data, and the examples that a load run sends of it: a random subset of a large set.

    Raises OptionError, InputDataError.
    """
    metric_of(config)
    data = labelled_set(config)
    if data.requests_per_example != 1:
        raise OptionError(
            f"an example of {config.workload.name} is several requests, which a load run mixes",
            fix="leave out --quality, and use `servemark quality`",
        )
    return data, chosen(data.size, most, config.seed)


MAX_SAMPLE_BYTES = 1 << 30
"""Of generated inputs: metadata may name any size."""
SEED_STRINGS = string.ascii_letters + string.digits
_WHOLE_RANGE = ("UINT8", "INT8")
"""Pixels, and quantised values. Wider whole numbers are mostly ids and masks, of which every model takes 0 and 1."""


def random_samples(tensors: Sequence[Tensor], options: Inputs, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw an endless stream: floats from [0, 1), 8-bit numbers from all values, others from 0 and 1, or --input-range.

    Optional inputs are left out unless an option names them. Raises InputDataError for a size that is not known.
    """
    sized = _sized(tensors, options)
    while True:
        yield {tensor.name: _random(tensor, shape, options, rng) for tensor, shape in sized}


def zero_samples(tensors: Sequence[Tensor], options: Inputs) -> Iterator[Sample]:
    """Zeros and empty strings, endlessly. Raises InputDataError for a size that is not known."""
    sample: Sample = {tensor.name: _zeros(tensor, shape) for tensor, shape in _sized(tensors, options)}
    while True:
        yield sample


def _sized(tensors: Sequence[Tensor], options: Inputs) -> list[tuple[Tensor, tuple[int, ...]]]:
    """The inputs to send, with their shapes. Raises InputDataError."""
    found = []
    for tensor in tensors:
        if tensor.optional and tensor.name not in {*options.shape, *options.input_range}:
            continue
        shape = options.shape.get(tensor.name, tensor.shape)
        if -1 in shape:
            raise InputDataError(
                f"input {tensor.name!r} {tensor.datatype}{list(tensor.shape)} has sizes that the request chooses",
                fix=f"--shape {tensor.name}:{','.join('1' if size == -1 else str(size) for size in shape)} with yours, "
                "or --input-data FILE",
            )
        found.append((tensor, shape))
    size = sum(math.prod(shape) * tensor.itemsize for tensor, shape in found)
    if size > MAX_SAMPLE_BYTES:
        raise InputDataError(
            f"one sample would take {size:,} bytes, the limit is {MAX_SAMPLE_BYTES:,}",
            fix="--shape with smaller sizes, or --input-data FILE",
        )
    if not found:
        raise InputDataError("every input of the model is optional", fix="name those to send: --shape or --input-range")
    return found


def _random(
    tensor: Tensor, shape: tuple[int, ...], options: Inputs, rng: np.random.Generator
) -> npt.NDArray[np.generic]:
    if tensor.datatype == "BYTES":
        return _strings(shape, options, rng)
    least, most = options.input_range.get(tensor.name, (0, 1))
    if tensor.dtype.kind == "f":
        least, most = float(least), float(most)
        return (least + (most - least) * rng.random(shape)).astype(tensor.dtype)
    if tensor.dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if tensor.datatype in _WHOLE_RANGE and tensor.name not in options.input_range:
        limits = np.iinfo(tensor.dtype.name)
        least, most = limits.min, limits.max
    whole: Any = tensor.dtype
    drawn: npt.NDArray[np.generic] = rng.integers(int(least), int(most), shape, whole, endpoint=True)
    return drawn


def _strings(shape: tuple[int, ...], options: Inputs, rng: np.random.Generator) -> npt.NDArray[np.generic]:
    elements = np.empty(shape, np.object_)
    for index in np.ndindex(*shape):
        elements[index] = (
            "".join(rng.choice(list(SEED_STRINGS), options.string_length))
            if not options.string_data
            else options.string_data
        ).encode()
    return elements


def _zeros(tensor: Tensor, shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    return np.full(shape, b"", np.object_) if tensor.datatype == "BYTES" else np.zeros(shape, tensor.dtype)
