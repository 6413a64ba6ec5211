"""Notes on a kernels document: cases above their ceiling, a machine that is not steady, and a GPU's data sheet."""

from typing import Any

from kernels.ceilings.ceiling import promised
from kernels.views import above, caveats, ceiling_lines, ceiling_words, unmeasured
from servemark.results.schema.kernels import title
from tests.support.saved_documents import kernels

KEYS = ("vendor_tflops", "vendor_gbps")


def test_what_is_faster_than_its_ceiling_is_said() -> None:
    def share(value: float, library: str = "torch") -> Any:
        sizes = {"family": "softmax", "label": f"rows={value}", "precision": "fp32", "library": library}
        return {**sizes, "bound_share": value}

    assert above([share(1.0), share(0.2)]) == []
    [words] = above([share(1.01), share(1.2), share(0.2)])
    assert words.startswith("2 of 3 cases lie above their ceiling, softmax rows=1.2 fp32 most (120%): ")
    assert above([share(2.0, "openvino")])[0].endswith("Ceilings are PyTorch's.")


def test_a_machine_that_is_not_steady_is_told() -> None:
    def probed(*products_ms: float) -> Any:
        return [{"bound_share": None, "probe": {"product_ms": each, "copy_ms": 4.0}} for each in products_ms]

    [words] = caveats(probed(*[1.0, 1.0, 1.2, 1.2] * 2))
    assert "before each case a product took 1.10 ms (IQR 18%) and a copy 4.00 ms (IQR 0%)." in words
    assert caveats(probed(*[1.0] * 8)) == caveats(probed(1.0, 2.0)) == []


def test_a_gpu_s_data_sheet_stands_beside_what_was_reached() -> None:
    found: Any = {"precision": "bf16", "tflops": 494.7, "tflops_of": "gemm", "call_us": 5.0}
    found["bandwidths"] = [{"mib": 256.0, "gbps": 3015.0, "of": "copy"}]
    words = ceiling_words(found | dict(zip(KEYS, promised("NVIDIA H100 80GB HBM3", "bf16"), strict=True)))
    assert words.endswith("; data sheet: 989,400 GFLOP/s (50% reached), 3,350 GB/s (90% reached)")
    assert "data sheet" not in ceiling_words(found | dict.fromkeys(KEYS))
    assert "data sheet" not in ceiling_words(found)


def test_skipped_cases_are_counted_by_reason() -> None:
    kind = {"family": "softmax", "precision": "int8", "library": "torch", "status": "skipped"}
    reasons = ("softmax has no int8", "memory: needs 10 MiB", "softmax has no int8", "memory: needs 20 MiB")
    cases: Any = [{**kind, "label": f"rows={number}", "reason": reason} for number, reason in enumerate(reasons)]
    assert unmeasured(cases) == [
        "skipped softmax rows=0 int8: softmax has no int8; and 1 more",
        "skipped softmax rows=1 int8: memory: needs 10 MiB; and 1 more",
    ]


def test_the_device_is_named_by_its_own_processor() -> None:
    found: Any = kernels({"environment": {"cpu": "a CPU"}})
    cpu = found["environment"]["cpu"]
    assert title(found) == f"quick on cpu, {cpu}, 2 threads; torch 2; cache hot"
    found |= {"cache_mib": 50.0, "held_mib": 64.0}
    assert "these cores were seen to hold 64 MiB" in ceiling_lines(found)[-1]
    assert "The system reports no cache; these cores" in ceiling_lines(found | {"cache_mib": None})[-1]
    boards = [{"index": 0, "name": "NVIDIA T4"}, {"index": 1, "name": "NVIDIA H100 80GB HBM3"}]
    found |= {"device": "cuda:1", "environment": {**found["environment"], "gpus": boards}}
    assert title(found) == "quick on cuda:1, NVIDIA H100 80GB HBM3; torch 2; cache hot"
    found["held_mib"] = None  # nobody looked for it: a GPU reports its own
    assert not any("seen to hold" in line for line in ceiling_lines(found))
    found["device"] = "cuda:2"
    assert title(found).startswith("quick on cuda:2, a GPU; ")
