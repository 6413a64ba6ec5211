"""Triton's tensors to numpy, or to PyTorch on a GPU, and back, inside the Python backend's stub.

To numpy there are two ways and each is right for one numpy. The stub of Triton 2.51 is built with a pybind11 that knows
numpy 1 only: with numpy 2 its `as_numpy` and `Tensor(name, array)` give wrong values without an error, since the
layout of numpy's type descriptors changed (NumPy 2.0 migration guide, "changes to the C-API"). DLPack is right there,
at some 50 us a tensor instead of 3. With numpy 1, in turn, `Tensor.from_dlpack` crashes the stub.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as triton

if TYPE_CHECKING:
    import torch

Array = npt.NDArray[np.generic]

_STUB_KNOWS_NUMPY = int(np.__version__.split(".", maxsplit=1)[0]) < 2


def read(tensor: "triton.Tensor") -> Array:
    """View a request's tensor; the array may be read-only and lives as long as the request."""
    return tensor.as_numpy() if _STUB_KNOWS_NUMPY else np.from_dlpack(tensor)


def join(parts: Sequence[Array]) -> Array:
    """Join requests along the batch."""
    return np.concatenate(parts)


def write(name: str, array: Array) -> "triton.Tensor":
    """Wrap an array for a response."""
    if _STUB_KNOWS_NUMPY:
        return triton.Tensor(name, array)
    if array.dtype == np.object_:  # DLPack has no strings, and what the stub makes of them is empty
        raise TypeError(
            f"{name}: this Triton's Python backend cannot pass strings with numpy {np.__version__}; "
            "servemark's environments of Python 3.11 and 3.12 have a numpy that it knows"
        )
    # DLPack carries no read-only flag in the protocol version that the stub speaks, so numpy refuses such an array.
    return triton.Tensor.from_dlpack(name, np.require(array, requirements=["C", "W"]))


class DeviceTensors:
    """Same interface as this module, with PyTorch's tensors on one GPU by DLPack, and no copy through the host.

    Requests over HTTP and gRPC arrive in host memory and are copied to the GPU once. Those of a preceding step of an
    ensemble or from CUDA shared memory are there already, where the model's configuration says
    `FORCE_CPU_ONLY_INPUT_TENSORS: no`, as servemark's do for a GPU.
    """

    def __init__(self, device: str) -> None:
        import torch

        self._torch = torch
        self._device = torch.device(device)
        torch.cuda.set_device(self._device)  # PyTorch hands out tensors of the GPU that is current, no other's

    def read(self, tensor: "triton.Tensor") -> "torch.Tensor":
        """View a request's tensor, or copy it to the device where it lies on the host or on another device."""
        if tensor.is_cpu():
            return self._torch.from_numpy(read(tensor)).to(self._device)
        return self._torch.utils.dlpack.from_dlpack(tensor.to_dlpack()).to(self._device)

    def join(self, parts: "Sequence[torch.Tensor]") -> "torch.Tensor":
        return self._torch.cat(list(parts))

    def write(self, name: str, tensor: "torch.Tensor") -> "triton.Tensor":
        """Hand a tensor to Triton, which copies it to where the response is wanted."""
        return triton.Tensor.from_dlpack(name, tensor.contiguous())
