"""Decodes and preprocesses picture files as torchvision's Resize(256), CenterCrop(224) and Normalize do.

Stands alone, so that NVIDIA's container serves it too; servemark/datasets/image_folder.py does the same for data sets.
"""

import io
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as triton
from PIL import Image

try:  # servemark's own Triton may run on a numpy that its stub does not know (servers/triton_backend/tensors.py)
    from servers.triton_backend.tensors import read, write
except ImportError:  # the stub defines triton.Tensor after it has imported this module

    def read(tensor: "triton.Tensor") -> npt.NDArray[np.generic]:
        """View a request's tensor."""
        return tensor.as_numpy()

    def write(name: str, array: npt.NDArray[np.generic]) -> "triton.Tensor":
        """Wrap an array for a response."""
        return triton.Tensor(name, array)


SHORTER_SIDE, CROP = 256, 224
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


class TritonPythonModel:
    """Triton's entry point: `file` UINT8 [N, bytes] -> `image` FP32 [N, 3, 224, 224]."""

    def execute(self, requests: "Sequence[triton.InferenceRequest]") -> "list[triton.InferenceResponse]":
        """Answer each request; one that holds no picture fails alone."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: "triton.InferenceRequest") -> "triton.InferenceResponse":
        files = read(triton.get_input_tensor_by_name(request, "file"))
        try:
            images = np.stack([preprocess(file.tobytes()) for file in files])
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            return triton.InferenceResponse(error=triton.TritonError(f"file is not a readable picture: {error}"))
        return triton.InferenceResponse([write("image", images)])


def preprocess(file: bytes) -> npt.NDArray[np.float32]:
    """Turn the bytes of a JPEG or PNG file into FP32 [3, 224, 224]."""
    with Image.open(io.BytesIO(file)) as opened:
        picture = opened.convert("RGB")
    width, height = picture.size
    scale = SHORTER_SIDE / min(width, height)
    picture = picture.resize(
        (max(SHORTER_SIDE, int(width * scale)), max(SHORTER_SIDE, int(height * scale))), Image.Resampling.BILINEAR
    )
    left, top = round((picture.width - CROP) / 2), round((picture.height - CROP) / 2)
    pixels = np.asarray(picture.crop((left, top, left + CROP, top + CROP)), np.float32) / np.float32(255)
    return np.ascontiguousarray(((pixels - MEAN) / STD).transpose(2, 0, 1))
