"""TensorFlow SavedModels: the tensors of `serving_default`, read from the file without loading it.

A SavedModel is a graph, which TensorFlow runs; operators that reach files or Python are refused before that.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exporters.importing.described import OPEN, Described, Port, unusable
from servemark.frameworks.tensorflow import import_tensorflow

ENGINE = "tensorflow"
KIND = "a SavedModel"
FILE = "saved_model.pb"
SIGNATURE = "serving_default"
DATATYPES = {
    "float32": "FP32",
    "float64": "FP64",
    "float16": "FP16",
    "bool": "BOOL",
    "uint8": "UINT8",
    "int8": "INT8",
    "int32": "INT32",
    "int64": "INT64",
}
"""TensorFlow's names -> KServe's."""
REACHING_OUT = {"EagerPyFunc", "MatchingFiles", "PyFunc", "PyFuncStateless", "ReadFile", "WriteFile", "XlaHostCompute"}
"""Operators that read or write files of their choice, or call Python."""
ANEW = "tf.saved_model.save(module, PATH, signatures={'serving_default': function})"


def recognises(path: Path) -> bool:
    """Whether it is the folder of a SavedModel."""
    return (path / FILE).is_file()


def describe(path: Path) -> Described:
    """Read the signature. Raises ArtifactError."""
    tf: Any = import_tensorflow()
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    try:
        saved = SavedModel.FromString((path / FILE).read_bytes())
    except DecodeError as error:
        raise unusable(path, f"its {FILE} is damaged", fix=ANEW) from error
    graphs = [each for each in saved.meta_graphs if "serve" in each.meta_info_def.tags]
    signatures = graphs[0].signature_def if graphs else {}
    if SIGNATURE not in signatures:
        raise unusable(
            path, f"it has no signature {SIGNATURE}, but {', '.join(sorted(signatures)) or 'none'}", fix=ANEW
        )
    if forbidden := sorted({node.op for node in _nodes(graphs[0])} & REACHING_OUT):
        raise unusable(
            path, f"its graph reaches files or Python ({', '.join(forbidden)})", fix="export it without preprocessing"
        )
    signature = signatures[SIGNATURE]
    return Described(
        inputs=tuple(_port(path, tf, name, signature.inputs[name]) for name in sorted(signature.inputs)),
        outputs=tuple(_port(path, tf, name, signature.outputs[name]) for name in sorted(signature.outputs)),
        facts={"opset": None, "producer": f"tensorflow {graphs[0].meta_info_def.tensorflow_version}"},
    )


def place(path: Path, version: Path) -> None:
    """Copy the folder as model.savedmodel."""
    version.mkdir(parents=True)
    shutil.copytree(path, version / "model.savedmodel")


def _nodes(graph: Any) -> Iterator[Any]:
    yield from graph.graph_def.node
    for function in graph.graph_def.library.function:
        yield from function.node_def


def _port(path: Path, tf: Any, name: str, tensor: Any) -> Port:
    kind = tf.dtypes.as_dtype(tensor.dtype).name
    if kind not in DATATYPES:
        raise unusable(path, f"its {name!r} is {kind}, and a workload has {', '.join(DATATYPES)}", fix=ANEW)
    if tensor.tensor_shape.unknown_rank:
        raise unusable(path, f"its {name!r} has any number of dimensions", fix=ANEW)
    sizes = (dim.size for dim in tensor.tensor_shape.dim)
    return Port(name, DATATYPES[kind], tuple(size if size > 0 else OPEN for size in sizes))
