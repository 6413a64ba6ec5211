"""Imported models: model files of the user's in a folder of the user's. Nothing of them runs when they are listed.

servemark_models/<name>/
    1/model.onnx    the file, as Triton's version directories lay it out; external data beside it
    golden.npz      sampled inputs and what the format's own runtime answers
    samples.npz     requests: of the user's data, or drawn at random
    model.json      tensors, counts, and where the file came from
"""

import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from servemark import files
from servemark.errors import ArtifactError, OptionError, parsing
from servemark.paths import IMPORTS
from servemark.workload.agreement import Agreement
from servemark.workload.spec import OWN_SUITES, Source, Workload
from servemark.workload.tensor import Arrays, Sample, Tensor, elements, read_npz

MODELS = "SERVEMARK_MODELS"
"""The environment variable that names the folder of imported models."""
DESCRIPTION, GOLDEN, SAMPLES = "model.json", "golden.npz", "samples.npz"


def models_folder() -> Path:
    """Return the folder of imported models."""
    return Path(os.environ.get(MODELS) or IMPORTS).absolute()


def imported() -> dict[str, Workload]:
    """The imported models by name. Raises ArtifactError on a damaged description."""
    found = (read_model(path.parent) for path in sorted(models_folder().glob(f"*/{DESCRIPTION}")))
    return {workload.name: workload for workload in found}


def read_model(folder: Path) -> Workload:
    """Read an imported model's description. Raises ArtifactError."""
    with parsing(folder / DESCRIPTION, ArtifactError, fix="`servemark import PATH --force` writes it anew"):
        text = files.content(folder / DESCRIPTION, files.DOCUMENT_BYTES)
        return described(folder, json.loads(text), hashlib.sha256(text).hexdigest())


def described(folder: Path, document: Mapping[str, Any], digest: str) -> Workload:
    """Make the workload of a description. Raises whatever reading it does."""
    name, said = folder.name, document["source"]
    return Workload(
        name=name,
        title=f"{name}, {said['kind']}",
        suites=OWN_SUITES,
        inputs=tuple(_tensor(each) for each in document["inputs"]),
        outputs=tuple(_tensor(each) for each in document["outputs"]),
        parameters=document["parameters"],
        flops=document["flops"],
        max_batch=int(document["max_batch"]),
        build=functools.partial(_no_network, name),
        samples=functools.partial(_samples, folder / SAMPLES),
        agreement=Agreement(),
        source=Source(said["engine"], said["kind"], folder, document["file"], digest, said, not document["requests"]),
    )


def _tensor(document: Mapping[str, Any]) -> Tensor:
    return Tensor(document["name"], document["datatype"], tuple(map(int, document["shape"])))


def _no_network(name: str) -> NoReturn:
    raise OptionError(f"{name} is an imported file, of which there is no network in Python", fix="use another engine")


def _samples(path: Path, rng: np.random.Generator) -> Iterator[Sample]:
    """Repeat the requests that were kept, each time in another order."""
    arrays = _read(path, path.stat().st_mtime_ns)
    rows = len(next(iter(arrays.values())))
    while True:
        yield from ({name: array[row, ...] for name, array in arrays.items()} for row in rng.permutation(rows))


@functools.lru_cache(maxsize=2)
def _read(path: Path, _: int) -> Arrays:
    with parsing(path, ArtifactError, fix="`servemark import PATH --force` writes it anew"):
        return {name: elements(array) for name, array in read_npz(path).items()}
