"""Every family: counts equal those by hand, the call is what float64 says, and one wrong element is noticed."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from kernels.families.convolution import Convolution
from kernels.families.dropout import Dropout
from kernels.families.gemm import Gemm
from kernels.families.recurrent import Recurrent
from kernels.measurement.case import Case
from kernels.measurement.device import PRECISIONS
from kernels.measurement.kernel import Bound, Sample, TensorFactory, families, make_kernel
from kernels.measurement.measure import error_of
from servemark.errors import OptionError

CONVOLUTION = {"n": 2, "c": 4, "k": 6, "size": (5, 7), "filter": (3, 3), "padding": (1, 1), "stride": (2, 2)}
DEPTHWISE = {"n": 1, "c": 8, "k": 8, "groups": 8, "size": (5, 5), "filter": (3, 3), "padding": (1, 1)}
LSTM = {"cell": "lstm", "hidden": 8, "batch": 3, "timesteps": 5}
TWO_OF_FOUR: dict[str, Any] = {"m": 64, "n": 3, "k": 64, "sparsity": 0.5, "pattern": "2:4"}
POOLING = {"n": 1, "c": 2, "h": 5, "w": 5, "window": 3, "stride": 2, "padding": 1}
BY_HAND: list[tuple[str, dict[str, Any], int, int]] = [
    # Family, sizes, FLOPs, bytes in fp32. A [4, 5] has 20 elements, B 15, C 12.
    ("gemm", {"m": 4, "n": 3, "k": 5}, 120, 188),
    ("gemm", {"m": 4, "n": 3, "k": 5, "a_t": True}, 120, 188),
    ("gemm", {"m": 4, "n": 3, "k": 5, "b_t": True}, 120, 188),
    ("gemm", {"m": 4, "n": 3, "k": 5, "batch": 2, "a_t": True}, 240, 376),
    ("gemm", {"m": 4, "n": 6, "k": 5, "groups": 3}, 240, 456),  # three A, one B, one C
    # 3 x 4 come out. 280 elements in, 216 weights, 144 out: all directions move the same.
    ("convolution", CONVOLUTION, 10_368, 2_560),
    ("convolution", CONVOLUTION | {"layout": "NHWC"}, 10_368, 2_560),
    ("convolution", CONVOLUTION | {"direction": "backward_data"}, 10_368, 2_560),
    ("convolution", CONVOLUTION | {"direction": "backward_weights"}, 10_368, 2_560),
    # 3 x 3 come out: 108 elements.
    ("convolution", CONVOLUTION | {"dilation": (2, 1), "stride": (1, 3)}, 7_776, 2_416),
    # Depthwise; of one dimension; of three.
    ("convolution", DEPTHWISE, 3_600, 1_888),
    ("convolution", {"n": 1, "c": 2, "k": 3, "size": (10,), "filter": (4,), "padding": (0,), "stride": (2,)}, 192, 224),
    (
        "convolution",
        {"n": 1, "c": 2, "k": 3, "size": (4, 5, 6), "filter": (2, 2, 2), "padding": (0, 0, 0), "stride": (1, 1, 1)},
        5_760,
        1_872,
    ),
    ("memory", {"operation": "copy", "length": 1000}, 0, 8_000),
    ("memory", {"operation": "scale", "length": 1000}, 1_000, 8_000),
    ("memory", {"operation": "add", "length": 1000}, 1_000, 12_000),
    ("memory", {"operation": "triad", "length": 1000}, 2_000, 12_000),
    ("memory", {"operation": "sum", "length": 1000}, 1_000, 4_004),
    # 32 gates: 512 weights and 64 biases, 120 in, 2 states of 24 in and out, 120 out.
    ("recurrent", LSTM, 7_680, 3_648),
    ("recurrent", LSTM | {"cell": "vanilla"}, 1_920, 1_728),
    ("recurrent", LSTM | {"cell": "gru"}, 5_760, 2_880),
    ("recurrent", LSTM | {"inputs": 4}, 7_680, 2_896),  # 128 weights and 60 inputs fewer
    ("recurrent", LSTM | {"direction": "backward_data"}, 7_680, 3_744),
    ("recurrent", LSTM | {"direction": "backward_weights"}, 7_680, 3_744),
    # 4 values in each of 20 rows, each with an index; 21 row pointers; B has 120 elements, C 60.
    ("sparse_gemm", {"m": 20, "n": 3, "k": 40, "sparsity": 0.9}, 480, 1_444),
    # 20 of 40 values in each of 64 rows, with 2 bits each; B has 120 elements, C 192.
    ("sparse_gemm", {"m": 64, "n": 3, "k": 40, "sparsity": 0.5, "pattern": "2:4"}, 7_680, 6_688),
    ("all_reduce", {"length": 1000, "ranks": 2}, 1_000, 8_000),
    ("element_wise", {"operation": "add", "length": 1000}, 1_000, 12_000),
    ("element_wise", {"operation": "div", "length": 1000}, 1_000, 12_000),
    ("activation", {"function": "relu", "length": 1000}, 1_000, 8_000),
    ("activation", {"function": "sigmoid", "length": 1000}, 4_000, 8_000),
    ("activation", {"function": "tanh", "length": 1000}, 1_000, 8_000),
    ("activation", {"function": "gelu", "length": 1000}, 5_000, 8_000),
    ("pooling", POOLING | {"kind": "max"}, 144, 272),  # 18 windows of 9
    ("pooling", POOLING | {"kind": "average"}, 162, 272),
    ("batch_norm", {"n": 2, "c": 3, "h": 4, "w": 5}, 240, 1_008),
    ("layer_norm", {"rows": 6, "width": 10}, 420, 560),
    ("lrn", {"n": 1, "c": 7, "h": 2, "w": 3}, 378, 336),
    ("softmax", {"rows": 6, "width": 10}, 300, 480),
    ("fully_connected", {"batch": 3, "inputs": 5, "outputs": 4}, 132, 204),
    ("dropout", {"length": 1000}, 2_000, 8_000),
    ("embedding", {"rows": 50, "width": 6, "lookups": 20}, 0, 1_120),
    ("attention", {"batch": 2, "heads": 3, "queries": 4, "keys": 5, "width": 6}, 2_880, 2_592),
]
CASES = [Case.of(family, **sizes) for family, sizes, _, _ in BY_HAND if sizes.get("pattern") != "2:4"]
NAMES = [str(case) for case in CASES]
COUNTED = [str(Case.of(family, **sizes)) for family, sizes, _, _ in BY_HAND]
REDUCED = [
    *((case, precision) for case in CASES for precision in ("bf16", "fp16") if case.family in {"gemm", "softmax"}),
    *((case, "int8") for case in CASES if case.family == "gemm" and not case.kernel.refusal("int8", "cpu", 2)),
    *((Case.of("gemm", m=32, n=7, k=48, a_t=True, groups=groups), "fp8") for groups in (1, 2)),
]
MOVE_LESS = {"embedding", "all_reduce"}
"""They take a part of a tensor, or hold one tensor for what they read and write."""


def test_importing_kernels_loads_no_torch() -> None:
    code = "import kernels, sys; from kernels.suites import cases_of; cases_of('quick')"
    code += "; from kernels import running; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_family_is_counted_by_hand() -> None:
    assert {family for family, *_ in BY_HAND} == set(families())


@pytest.mark.parametrize(("family", "sizes", "flops", "size_bytes"), BY_HAND, ids=COUNTED)
def test_counts_are_those_by_hand(family: str, sizes: dict[str, Any], flops: int, size_bytes: int) -> None:
    kernel = make_kernel(family, sizes)
    assert (kernel.flops(), kernel.traffic("fp32")) == (flops, size_bytes)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_kernel_is_right_and_a_wrong_element_is_noticed(case: Case) -> None:
    tolerance = PRECISIONS["fp32"].tolerance
    with torch.no_grad():
        bound = case.kernel.bind(TensorFactory("fp32", seed=0))
        try:
            assert error_of(case, bound) <= tolerance
            assert error_of(case, replace(bound, call=lambda: with_a_wrong_element(bound))) > tolerance
            assert error_of(case, replace(bound, call=lambda: filled(bound, 0.0))) > tolerance
            assert error_of(case, replace(bound, call=lambda: filled(bound, float("nan")))) > tolerance
            if case.family not in MOVE_LESS and "backward" not in str(case):
                assert moved_bytes(bound) == case.kernel.traffic("fp32")
        finally:
            bound.release()


@pytest.mark.parametrize(("case", "precision"), REDUCED, ids=str)
def test_a_reduced_precision_is_within_its_tolerance(case: Case, precision: str) -> None:
    bound = case.kernel.bind(TensorFactory(precision))
    assert error_of(case, bound) <= PRECISIONS[precision].tolerance
    assert error_of(case, replace(bound, call=lambda: with_a_wrong_element(bound))) > PRECISIONS[precision].tolerance


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_two_of_four_values_are_there(monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    """The double of what packs them for a GPU is a dense product of the same matrix."""
    packed: list[torch.Tensor] = []

    def pack(dense: torch.Tensor) -> torch.Tensor:
        packed.append(dense)
        return dense

    monkeypatch.setattr(torch.sparse, "to_sparse_semi_structured", pack)
    case = Case.of("sparse_gemm", **TWO_OF_FOUR)
    bound = case.kernel.bind(TensorFactory(precision))
    assert error_of(case, bound) <= PRECISIONS[precision].tolerance
    assert error_of(case, replace(bound, call=lambda: with_a_wrong_element(bound))) > PRECISIONS[precision].tolerance
    there = (packed[0].view(64, 16, 4) != 0).int()
    assert set(there.sum(-1).flatten().tolist()) == {2}
    pairs = {tuple(four) for four in there.flatten(0, 1).tolist()}
    assert len(pairs) == 6  # of the places of two among four


def test_inputs_are_random_and_no_type_makes_them_zero() -> None:
    for precision in PRECISIONS:
        drawn = TensorFactory(precision).normal(1000).double()
        assert float((drawn == 0).double().mean()) < 0.01
        assert float(drawn.std()) > 0.5
        assert not torch.equal(drawn, TensorFactory(precision, seed=1).normal(1000).double())


def test_a_large_output_is_checked_in_part() -> None:
    all_of_them, some = Sample().of(10, 1.0), Sample(max_flops=30).of(1000, 10.0)
    assert all_of_them.tolist() == list(range(10))
    assert len(some) == 3
    assert sorted(set(some.tolist())) == some.tolist()
    assert len(Sample(max_flops=1).of(1000, 10.0)) == 1


def test_parts_of_a_grouped_product_are_unequal_and_whole() -> None:
    assert Gemm(m=1, n=12, k=1, groups=3).parts() == [(0, 2), (2, 6), (6, 12)]
    assert Gemm(m=1, n=12, k=1).parts() == [(0, 12)]


def test_dropout_that_keeps_too_much_is_wrong() -> None:
    case = Case("dropout", Dropout(length=10_000))
    data = TensorFactory("fp32").normal(10_000)
    assert error_of(case, Bound((data,), lambda: data * 2)) > 0.5


def test_further_figures_of_a_family() -> None:
    half = Recurrent("lstm", hidden=8, batch=3, timesteps=5, inputs=4)
    assert half.full_flops() == 2 * 4 * 8 * 12 * 15
    assert half.figures(1.0) == {"tflops_with_inputs": half.full_flops() / 1e12}
    sparse = make_kernel("sparse_gemm", {"m": 20, "n": 3, "k": 40, "sparsity": 0.9}).figures(2.0)
    assert sparse == pytest.approx({"dense_equivalent_tflops": 2.4e-9, "deepbench_tflops": 2.16e-9})
    reduced = make_kernel("all_reduce", {"length": 1000, "ranks": 4}).figures(1e-3)
    assert reduced == pytest.approx({"algorithm_gbps": 4e-3, "bus_gbps": 6e-3})


def test_sizes_in_words_and_from_a_document() -> None:
    kernel = make_kernel("convolution", {"n": 1, "c": 2, "k": 3, "size": [8, 9], "filter": [3, 3]})
    assert kernel == Convolution(n=1, c=2, k=3, size=(8, 9), filter=(3, 3))
    assert kernel.label() == "n=1 c=2 k=3 size=8x9 filter=3x3"
    assert Gemm(m=1, n=2, k=3, a_t=True).label() == "m=1 n=2 k=3 a_t"
    with pytest.raises(OptionError, match="one of: activation, "):
        make_kernel("gemv", {})


@pytest.mark.parametrize(
    ("family", "sizes", "precision", "device", "reason"),
    [
        ("all_reduce", {"length": 8, "ranks": 4}, "fp32", "cpu", "4 processes on 2 cores"),
        ("all_reduce", {"length": 8, "ranks": 2}, "fp32", "cuda:0", "2 processes need as many GPUs, PyTorch sees 0"),
        ("all_reduce", {"length": 8, "ranks": 2}, "fp32", "cuda:1", "from cuda:0 on"),
        ("sparse_gemm", TWO_OF_FOUR, "bf16", "cpu", "no CPU has it"),
        ("sparse_gemm", TWO_OF_FOUR, "fp32", "cuda:0", "in bf16 and fp16"),
        ("sparse_gemm", TWO_OF_FOUR | {"k": 96}, "bf16", "cuda:0", "k of 64"),
        ("sparse_gemm", TWO_OF_FOUR | {"sparsity": 0.75}, "bf16", "cuda:0", "half the values"),
        ("memory", {"operation": "host_to_device", "length": 8}, "fp32", "cpu", "no GPU"),
        ("gemm", {"m": 1, "n": 1, "k": 1, "batch": 2}, "int8", "cpu", "no batched product"),
        ("gemm", {"m": 1, "n": 1, "k": 1}, "fp8", "cuda:0", "A transposed, and B not"),
        ("gemm", {"m": 16, "n": 1, "k": 24, "a_t": True}, "fp8", "cuda:0", "multiples of 16"),
        ("gemm", {"m": 64, "n": 16, "k": 64}, "int8", "cuda:0", "n of 17"),
        (
            "convolution",
            {"n": 1, "c": 1, "k": 1, "size": (8,), "filter": (1,), "padding": (0,), "stride": (1,), "layout": "NHWC"},
            "fp32",
            "cpu",
            "one dimension",
        ),
    ],
)
def test_sizes_that_cannot_be_measured_say_why(
    family: str, sizes: dict[str, Any], precision: str, device: str, reason: str
) -> None:
    assert reason in (make_kernel(family, sizes).refusal(precision, device, 2) or "")


def tensors_of(bound: Bound) -> list[torch.Tensor]:
    output = bound.call()
    return [output] if isinstance(output, torch.Tensor) else list(output)


def with_a_wrong_element(bound: Bound) -> Any:
    """The output, whose largest element is twice as large."""
    wrong = []
    for each in tensors_of(bound):
        copy = each.detach().clone().contiguous()
        place = int(copy.double().abs().argmax())
        copy.view(-1)[place] *= 2
        wrong.append(copy)
    return wrong[0] if len(wrong) == 1 else tuple(wrong)


def filled(bound: Bound, value: float) -> Any:
    wrong = [torch.full_like(each, value) for each in tensors_of(bound)]
    return wrong[0] if len(wrong) == 1 else tuple(wrong)


def moved_bytes(bound: Bound) -> int:
    """Bytes of what goes in and comes out; indices of a sparse matrix are int32, and its rows have pointers."""
    output = tensors_of(bound)
    indices = [each for each in bound.inputs if each.dtype == torch.int64]
    pointers = sum(4 * (each.shape[0] + 1) for each in indices)
    return pointers + sum(4 * each.numel() for each in (*bound.inputs, *output))
