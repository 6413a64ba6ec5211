"""Turns logits into probabilities and the five likeliest classes; stands alone, for NVIDIA's container to serve it."""

from collections.abc import Sequence

import numpy as np
import triton_python_backend_utils as triton

TOP = 5
NUMPY_1 = np.__version__.startswith("1.")


class TritonPythonModel:
    """Triton's entry point: `logits` FP32 [N, 1000] -> `ids` and `scores` [N, 5], `probabilities` FP32 [N, 1000]."""

    def execute(self, requests: "Sequence[triton.InferenceRequest]") -> "list[triton.InferenceResponse]":
        """Answer each request with the outputs it asks for."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: "triton.InferenceRequest") -> "triton.InferenceResponse":
        tensor = triton.get_input_tensor_by_name(request, "logits")
        # the stub of Triton 2.51 knows numpy 1 only, and DLPack is right where numpy is newer
        logits = tensor.as_numpy() if NUMPY_1 else np.from_dlpack(tensor)
        exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = exponents / exponents.sum(axis=1, keepdims=True)
        ids = np.argsort(-logits, axis=1, kind="stable")[:, :TOP].astype(np.int32)
        answer = {
            "ids": ids,
            "scores": np.take_along_axis(probabilities, ids, axis=1),
            "probabilities": probabilities,
        }
        asked = request.requested_output_names()
        write = triton.Tensor if NUMPY_1 else triton.Tensor.from_dlpack
        return triton.InferenceResponse([write(name, array) for name, array in answer.items() if name in asked])
