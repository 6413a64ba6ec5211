"""The samples of a run's requests, from the place that --input-data names."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from loadgen.inputs.files import Step, from_npz, from_npz_folder, from_raw, has_validation, raw_files, read_steps
from loadgen.inputs.generated import random_samples, zero_samples
from loadgen.load.load_config import LoadConfig
from servemark import datasets
from servemark.documents.request import DATASET, DRAWN, SYNTHETIC
from servemark.errors import InputDataError
from servemark.paths import DATA_ROOT
from servemark.repository.entry import Golden
from servemark.workload import Arrays, Sample, Workload

GENERATED = (SYNTHETIC, *DRAWN)


def samples_of(config: LoadConfig) -> Iterator[Sample]:
    """The samples that `--input-data` names. Raises InputDataError, never substitutes another source."""
    source, served = config.input_data, config.workload.served
    if (config.inputs.shape or config.inputs.input_range) and not (source in DRAWN or (served and source == SYNTHETIC)):
        raise InputDataError(
            f"--shape and --input-range are for inputs that are drawn at random, not for --input-data {source}",
            fix="add --input-data random, or leave them out",
        )
    if source in GENERATED:
        return _generated(config)
    if source == DATASET:
        return _dataset(config)
    return samples_at(data_path(config, config.workload.dataset), config.workload)


def samples_at(path: Path, workload: Workload) -> Iterator[Sample]:
    """The samples of a user's file or folder, in the formats that we know or the workload reads.

    Raises InputDataError.
    """
    return _checked(path, _of_path(path, workload))


def data_path(config: LoadConfig, dataset: str | None) -> Path:
    """Return the path of the real data that `--input-data` names. Raises InputDataError if nothing is there."""
    if config.input_data == DATASET and dataset is not None:
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
            fix="give perf_analyzer's JSON or folder of raw files, a .npz file or a folder of them",
        )
    return workload.read(path)


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


def _dataset(config: LoadConfig) -> Iterator[Sample]:
    workload = config.workload
    if workload.dataset is None or workload.read is None:
        raise InputDataError(f"{workload.name} has no data set of its own", fix="--input-data synthetic, or a path")
    path = data_path(config, workload.dataset)
    return _checked(path, workload.read(path))


def _checked(path: Path, samples: Iterator[Sample]) -> Iterator[Sample]:
    """The samples, of which there has to be one; no more are read than a run takes."""
    first = next(samples, None)
    if first is None:
        raise InputDataError(f"{path} holds no sample", fix="see docs for the layout of this workload's data")
    return itertools.chain([first], samples)
