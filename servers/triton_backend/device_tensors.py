"""Triton's tensors to PyTorch's on one GPU and back by DLPack, with no copy through the host.

Requests over HTTP and gRPC arrive in host memory and are copied to the GPU once. Those of
a preceding step of an ensemble or from CUDA shared memory are there already, where the model's configuration says
`FORCE_CPU_ONLY_INPUT_TENSORS: no`, as servemark's do for a GPU.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import triton_python_backend_utils as triton

from servers.triton_backend import tensors

if TYPE_CHECKING:
    import torch


class DeviceTensors:
    """Same interface as `servers.triton_backend.tensors`, with PyTorch tensors on one device."""

    def __init__(self, device: str) -> None:
        import torch

        self._torch = torch
        self._device = torch.device(device)
        torch.cuda.set_device(self._device)  # PyTorch hands out tensors of the GPU that is current, no other's

    def read(self, tensor: "triton.Tensor") -> "torch.Tensor":
        """View a request's tensor, or copy it to the device where it lies on the host or on another device."""
        if tensor.is_cpu():
            return self._torch.from_numpy(tensors.read(tensor)).to(self._device)
        return self._torch.utils.dlpack.from_dlpack(tensor.to_dlpack()).to(self._device)

    def join(self, parts: "Sequence[torch.Tensor]") -> "torch.Tensor":
        return self._torch.cat(list(parts))

    def write(self, name: str, tensor: "torch.Tensor") -> "triton.Tensor":
        """Hand a tensor to Triton, which copies it to where the response is wanted."""
        return triton.Tensor.from_dlpack(name, tensor.contiguous())
