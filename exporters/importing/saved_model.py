"""TensorFlow SavedModels: the tensors of `serving_default`, read from the file without loading it.

A SavedModel is a graph, which TensorFlow runs. What it may do is listed: operators that compute, and no others.
"""

import re
import shutil
from pathlib import Path
from typing import Any

from exporters.importing.model_file import (
    DATATYPES,
    MAX_BYTES,
    OPEN,
    ModelDescription,
    TensorInfo,
    held,
    shown,
    unusable,
)
from exporters.importing.tensorflow_graph import SIGNATURE, keep_computing
from servemark.errors import ArtifactError, parsing
from servemark.frameworks.tensorflow import import_tensorflow

ENGINE = "tensorflow"
KIND = "a SavedModel"
FILE = "saved_model.pb"
VARIABLES = re.compile(r"variables\.(index|data-\d{5}-of-\d{5})")
"""The files of a SavedModel's variables."""
ANEW = "tf.saved_model.save(module, PATH, signatures={'serving_default': function})"


def recognises(path: Path) -> bool:
    """Return True if the path is the folder of a SavedModel."""
    return (path / FILE).is_file()


def describe(path: Path) -> ModelDescription:
    """Read the signature. Raises ArtifactError."""
    tf: Any = import_tensorflow()
    with parsing(path, ArtifactError, fix=ANEW):
        [graph] = _read(path).meta_graphs
    signature = graph.signature_def[SIGNATURE]
    return ModelDescription(
        inputs=tuple(_port(path, tf, name, signature.inputs[name]) for name in sorted(signature.inputs)),
        outputs=tuple(_port(path, tf, name, signature.outputs[name]) for name in sorted(signature.outputs)),
        facts={"opset": None, "producer": f"tensorflow {graph.meta_info_def.tensorflow_version}"},
    )


def place(path: Path, version: Path) -> None:
    """Write what was checked as model.savedmodel, and copy its variables; assets, which nothing reads, stay behind."""
    target = version / "model.savedmodel"
    (target / "variables").mkdir(parents=True)
    (target / FILE).write_bytes(_read(path).SerializeToString())
    for file in sorted((path / "variables").iterdir()) if (path / "variables").is_dir() else ():
        if VARIABLES.fullmatch(file.name):
            if not file.is_file() or not held(path / FILE, file):
                raise unusable(path, f"its {file.name} is not a file, or lies outside its folder", fix=ANEW)
            shutil.copyfile(file, target / "variables" / file.name)


def _read(path: Path) -> Any:
    """The SavedModel with one graph, of which only what computes is left. Raises ArtifactError."""
    import_tensorflow()
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    size = (path / FILE).stat().st_size
    if size > MAX_BYTES:
        raise unusable(path, f"its {FILE} has {size / 2**30:.1f} GiB, and protobuf reads less than 2", fix=ANEW)
    try:
        saved = SavedModel.FromString((path / FILE).read_bytes())
    except DecodeError as error:
        raise unusable(path, f"its {FILE} is damaged", fix=ANEW) from error
    saved.DiscardUnknownFields()
    graphs = [each for each in saved.meta_graphs if "serve" in each.meta_info_def.tags]
    signatures = graphs[0].signature_def if graphs else {}
    if SIGNATURE not in signatures:
        there = shown(", ".join(sorted(signatures)) or "none")[1:-1]
        raise unusable(path, f"it has no signature {SIGNATURE}, but {there}", fix=ANEW)
    if found := keep_computing(graphs[0]):
        raise unusable(
            path,
            f"its graph does more than compute ({shown(', '.join(sorted(found)))[1:-1]})",
            fix="export it without preprocessing, printing, and code in Python",
        )
    kept = type(saved)(saved_model_schema_version=saved.saved_model_schema_version)
    kept.meta_graphs.append(graphs[0])
    return kept


def _port(path: Path, tf: Any, name: str, tensor: Any) -> TensorInfo:
    try:
        kind = tf.dtypes.as_dtype(tensor.dtype).name
    except TypeError:
        kind = "of an unknown type"
    if kind not in DATATYPES:
        raise unusable(path, f"its {name!r} is {kind}, and a workload has {', '.join(DATATYPES)}", fix=ANEW)
    if tensor.tensor_shape.unknown_rank:
        raise unusable(path, f"its {name!r} has any number of dimensions", fix=ANEW)
    sizes = (dim.size for dim in tensor.tensor_shape.dim)
    return TensorInfo(name, DATATYPES[kind], tuple(size if size > 0 else OPEN for size in sizes))
