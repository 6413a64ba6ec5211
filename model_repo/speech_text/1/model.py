"""Deep Speech 2's labels to text for Triton's Python backend."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as triton

try:  # servemark's own Triton may run on a numpy that its stub does not know (servers/triton_backend/tensors.py)
    from servers.triton_backend.tensors import read, write
except ImportError:  # the stub defines triton.Tensor after it has imported this module

    def read(tensor: "triton.Tensor") -> npt.NDArray[np.generic]:
        """View a request's tensor."""
        return tensor.as_numpy()

    def write(name: str, array: npt.NDArray[np.generic]) -> "triton.Tensor":
        """Wrap an array for a response."""
        return triton.Tensor(name, array)


LABELS = "_'ABCDEFGHIJKLMNOPQRSTUVWXYZ "


class TritonPythonModel:
    """One instance of the model."""

    def execute(self, requests: "Sequence[triton.InferenceRequest]") -> "list[triton.InferenceResponse]":
        """Answer each request by itself."""
        return [respond(request) for request in requests]


def respond(request: "triton.InferenceRequest") -> "triton.InferenceResponse":
    """Spell the ids [batch, steps], of which the first `lengths` count."""
    ids, lengths = (read(triton.get_input_tensor_by_name(request, name)) for name in ("ids", "lengths"))
    texts = ["".join(LABELS[i] for i in row[:length]) for row, [length] in zip(ids, lengths, strict=True)]
    encoded = np.array([[text.encode()] for text in texts], np.object_)
    return triton.InferenceResponse([write("text", encoded)])
