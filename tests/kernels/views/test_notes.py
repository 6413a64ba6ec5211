"""Notes on a kernels document: cases above their ceiling, and a GPU's data sheet."""

from typing import Any

from kernels.ceilings.vendor import promised
from kernels.views.notes import above, ceiling_words

KEYS = ("vendor_tflops", "vendor_gbps")


def test_what_is_faster_than_its_ceiling_is_said() -> None:
    def share(value: float, library: str = "torch") -> Any:
        sizes = {"family": "softmax", "label": f"rows={value}", "precision": "fp32", "library": library}
        return {**sizes, "bound_share": value}

    assert above([share(1.0), share(0.2)]) == []
    [words] = above([share(1.01), share(1.2), share(0.2)])
    assert words.startswith("2 of 3 cases lie above their ceiling, softmax rows=1.2 fp32 most (120%): ")
    assert above([share(2.0, "openvino")])[0].endswith("Ceilings are PyTorch's.")


def test_a_gpu_s_data_sheet_stands_beside_what_was_reached() -> None:
    found: Any = {"precision": "bf16", "tflops": 494.7, "tflops_of": "gemm", "call_us": 5.0}
    found["bandwidths"] = [{"mib": 256.0, "gbps": 3015.0, "of": "copy"}]
    words = ceiling_words(found | dict(zip(KEYS, promised("NVIDIA H100 80GB HBM3", "bf16"), strict=True)))
    assert words.endswith("; data sheet: 989,400 GFLOP/s (50% reached), 3,350 GB/s (90% reached)")
    assert "data sheet" not in ceiling_words(found | dict.fromkeys(KEYS))
    assert "data sheet" not in ceiling_words(found)
