"""Gives back what it gets, on Triton's own Python backend."""

import triton_python_backend_utils as triton

from servers.triton_backend import tensors


class TritonPythonModel:
    """Triton's interface of a Python model."""

    def execute(self, requests: "list[triton.InferenceRequest]") -> "list[triton.InferenceResponse]":
        """Answer each request with its own input."""
        return [
            triton.InferenceResponse(
                [tensors.write("OUTPUT0", tensors.read(triton.get_input_tensor_by_name(request, "INPUT0")))]
            )
            for request in requests
        ]
