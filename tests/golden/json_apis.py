"""JSON APIs of other servers, as their own pages have them, spoken by the golden server: an oracle of our descriptions.

Sources: KServe "V1 Inference Protocol"; TensorFlow Serving "RESTful API" (row format); PyTorch Serve "Inference API";
OpenAI "Create embeddings"; Jina "Reranker API"; BentoML "Adaptive batching".
"""

import base64
import json
import struct
from typing import Any

import numpy as np

from tests.golden.tensors import NUMPY, BadRequestError, Request, Tensor, Value, unpack_bytes

PATHS = {
    "kserve-v1": "/v1/models/{model}:predict",
    "tensorflow-serving": "/v1/models/{model}:predict",
    "torchserve": "/predictions/{model}",
    "openai-embeddings": "/v1/embeddings",
    "rerank": "/v1/rerank",
    "predict": "/predict",
    "bentoml": "/predict",
}
READY = {
    "kserve-v1": "/v1/models/{model}",
    "tensorflow-serving": "/v1/models/{model}",
    "torchserve": "/ping",
    "bentoml": "/readyz",
}


def packed(rows: list[Any], tensor: Tensor) -> Value:
    """Make a tensor of one value for each row."""
    if tensor.datatype == "BYTES":
        items = np.array(rows, object)
        plain = [base64.b64decode(i["b64"]) if isinstance(i, dict) else i.encode() for i in items.ravel()]
        raw = b"".join(struct.pack("<I", len(item)) + item for item in plain)
        return Value(tensor.name, tensor.datatype, list(items.shape), raw)
    array = np.array(rows, NUMPY[tensor.datatype])
    return Value(tensor.name, tensor.datatype, list(array.shape), array.tobytes())


def unpacked(value: Value) -> Any:
    """Return a tensor's values as nested lists, the batch first."""
    if value.datatype == "BYTES":
        items = np.array([item.decode() for item in unpack_bytes(value.raw)], object)
        return items.reshape(value.shape).tolist()
    return np.frombuffer(value.raw, NUMPY[value.datatype]).reshape(value.shape).tolist()


def read(api: str, body: bytes, inputs: tuple[Tensor, ...]) -> Request:
    """Read a request. Raises BadRequestError."""
    try:
        document = json.loads(body)
        if api in {"kserve-v1", "tensorflow-serving"}:
            if api == "tensorflow-serving" and document["signature_name"] != "serving_default":
                raise BadRequestError("an unknown signature")
            rows = document["instances"]
        elif api == "openai-embeddings":
            if document["encoding_format"] != "float" or not document["model"]:
                raise BadRequestError("an unknown encoding")
            rows = document["input"]
        elif api == "bentoml":
            rows = document["samples"]
        elif api == "rerank":
            if not isinstance(document["query"], str):
                raise BadRequestError("a query is one text")
            rows = [{"query": [document["query"]], "documents": document["documents"]}]
        else:
            if api == "predict" and not isinstance(document, dict):
                raise BadRequestError("a sample is an object")
            rows = [document]
        values = [packed([row[t.name] if isinstance(row, dict) else row for row in rows], t) for t in inputs]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadRequestError(f"{api}: {error!r}") from error
    return Request("", len(rows), values, {}, {}, (len(rows),))


def written(api: str, request: Request, values: list[Value]) -> bytes:
    """Write an answer."""
    columns = {value.name: unpacked(value) for value in values}
    rows = [{name: column[row] for name, column in columns.items()} for row in range(request.batch)]
    alone = len(columns) == 1
    if api in {"kserve-v1", "tensorflow-serving"}:
        document: Any = {"predictions": [next(iter(row.values())) for row in rows] if alone else rows}
    elif api == "openai-embeddings":
        data = [{"object": "embedding", "index": i, "embedding": row["embedding"]} for i, row in enumerate(rows)]
        document = {"object": "list", "data": data, "usage": {"prompt_tokens": 8, "total_tokens": 8}}
    elif api == "bentoml":
        document = rows
    elif api == "rerank":
        scores = rows[0]["relevance_score"]
        document = {"results": [{"index": i, "relevance_score": score} for i, score in enumerate(scores)]}
    else:
        document = rows[0]
    return json.dumps(document).encode()
