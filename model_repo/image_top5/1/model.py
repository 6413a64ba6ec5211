"""Turns logits into probabilities and the five likeliest classes; stands alone, for NVIDIA's container to serve it."""

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


TOP = 5


class TritonPythonModel:
    """Triton's entry point: `logits` FP32 [N, 1000] -> `ids` and `scores` [N, 5], `probabilities` FP32 [N, 1000]."""

    def execute(self, requests: "Sequence[triton.InferenceRequest]") -> "list[triton.InferenceResponse]":
        """Answer each request with the outputs it asks for."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: "triton.InferenceRequest") -> "triton.InferenceResponse":
        logits = read(triton.get_input_tensor_by_name(request, "logits"))
        exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = exponents / exponents.sum(axis=1, keepdims=True)
        ids = np.argsort(-logits, axis=1, kind="stable")[:, :TOP].astype(np.int32)
        answer = {
            "ids": ids,
            "scores": np.take_along_axis(probabilities, ids, axis=1),
            "probabilities": probabilities,
        }
        asked = request.requested_output_names()
        return triton.InferenceResponse([write(name, array) for name, array in answer.items() if name in asked])
