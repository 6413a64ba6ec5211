"""Triton's tensors to numpy and back, inside the Python backend's stub.

There are two ways and each is right for one numpy. The stub of Triton 2.51 is built with a pybind11 that knows
numpy 1 only: with numpy 2 its `as_numpy` and `Tensor(name, array)` give wrong values without an error, since the
layout of numpy's type descriptors changed (NumPy 2.0 migration guide, "changes to the C-API"). DLPack is right there,
at some 50 us a tensor instead of 3. With numpy 1, in turn, `Tensor.from_dlpack` crashes the stub.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as triton

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
