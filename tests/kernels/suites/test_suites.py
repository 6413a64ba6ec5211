"""Suites: what each holds, and errors that name what there is."""

from collections import Counter

import pytest

from kernels.measurement.case import Case, once
from kernels.measurement.kernel import families, make_kernel
from kernels.suites import ai_matrix, cases_of, deepbench, suites
from servemark.errors import OptionError


@pytest.mark.parametrize("name", suites())
def test_a_suite_s_cases_are_different_and_do_something(name: str) -> None:
    cases = cases_of(name)
    assert [str(case) for case, count in Counter(map(str, cases)).items() if count > 1] == []
    for case in cases:
        assert case.kernel.traffic("fp32") > 0, str(case)
        assert case.source
        assert case.kernel.flops() > 0 or case.family in {"memory", "embedding", "pooling"}  # a copy, a window of one


def test_quick_has_thirty_cases_of_every_family() -> None:
    cases = cases_of("quick")
    assert len(cases) == 30
    assert {case.family for case in cases} == set(families())


def test_a_suite_s_families_can_be_chosen() -> None:
    assert {case.family for case in cases_of("quick", ["gemm", "softmax"])} == {"gemm", "softmax"}
    with pytest.raises(OptionError, match="one of: activation"):
        cases_of("quick", ["gemv"])
    with pytest.raises(OptionError, match="'quick' is a suite, not a family") as refused:
        cases_of("quick", ["quick"])
    assert refused.value.fix == "--suite quick"
    with pytest.raises(OptionError, match="suite 'slow' is unknown"):
        cases_of("slow")


DEEPBENCH = {
    # DeepBench's own counts: rows of its tables at commit da81ba7.
    "gemm_train": 160,
    "gemm_inference_server": 75,
    "gemm_inference_device": 13,
    "conv_train": 94,
    "conv_inference_server": 107,
    "conv_inference_device": 16,
    "rnn_train": 53,
    "rnn_inference_server": 69,
    "rnn_inference_device": 3,
    "sparse_gemm_inference_server": 24,
    "sparse_gemm_inference_device": 8,
    "allreduce": 35,
}
AI_MATRIX = {"conv": 109, "fc": 9, "pool": 24, "normal": 77, "active": 96}


def test_tables_are_whole() -> None:
    assert {table: len(deepbench.rows(table)) for table in DEEPBENCH} == DEEPBENCH
    assert {table: len(ai_matrix.rows(table)) for table in AI_MATRIX} == AI_MATRIX


def test_published_figures_are_of_deepbench_s_own_cases() -> None:
    known = deepbench.published()
    assert sum(map(len, known.values())) == 22
    cases = {case.kernel for name in ("train", "server") for case in cases_of(f"deepbench-{name}")}
    assert [kernel.label() for kernel in known if kernel not in cases] == []
    [tensor, plain] = known[make_kernel("gemm", {"m": 2560, "n": 7000, "k": 2560})][:2]
    assert (tensor["ms"], plain["ms"]) == (0.884, 6.948)


def test_deepbench_s_suites() -> None:
    assert families_of("deepbench-device") == {"gemm": 13, "convolution": 15, "recurrent": 3, "sparse_gemm": 8}
    # 107 rows of which 4 stand there twice; 24 rows of which 8 differ between code and spreadsheet.
    assert families_of("deepbench-server") == {"gemm": 75, "convolution": 103, "recurrent": 69, "sparse_gemm": 32}
    # 94 rows of which 4 stand there twice, and 53 rows, in three directions.
    assert families_of("deepbench-train") == {"gemm": 160, "convolution": 270, "recurrent": 159, "all_reduce": 35}


def test_where_deepbench_disagrees_with_itself_both_are_cases() -> None:
    sparse = {case.kernel.label(): case.source for case in cases_of("deepbench-server", ["sparse_gemm"])}
    assert sparse["m=7860 n=2 k=2560 sparsity=0.95"] == "DeepBench (code)"
    assert sparse["m=7680 n=2 k=2560 sparsity=0.95"] == "DeepBench (spreadsheet)"
    train = cases_of("deepbench-train", ["convolution", "all_reduce"])
    alone = [case for case in train if "code alone" in case.source]
    assert {case.family for case in alone} == {"convolution", "all_reduce"}


def test_a_row_of_each_table_as_it_is_in_deepbench() -> None:
    gemm, *_ = cases_of("deepbench-train", ["gemm"])
    assert (gemm.kernel.label(), gemm.source) == ("m=1760 n=16 k=1760", "DeepBench, DeepSpeech")
    speech = cases_of("deepbench-server", ["convolution"])[0].kernel
    # A filter of 5 x 20 over 161 frequencies and 700 frames, stride 2: 79 x 341 come out.
    assert speech.label() == "n=1 c=1 k=32 size=161x700 filter=5x20 stride=2x2"
    assert speech.flops() == 2 * 32 * 5 * 20 * 79 * 341
    lstm = cases_of("deepbench-server", ["recurrent"])[0].kernel
    assert lstm.label() == "cell=lstm hidden=512 batch=1 timesteps=25"


def test_ai_matrix_s_kernels_and_grids() -> None:
    sides = Counter(row["filter_h"] for row in ai_matrix.rows("conv"))
    assert sides == {1: 77, 3: 25, 7: 4, 5: 2, 11: 1}
    found = families_of("ai-matrix")
    assert (found["gemm"], found["recurrent"], found["fully_connected"]) == (30, 120, 9)
    cells = Counter(case.kernel.sizes()["cell"] for case in cases_of("ai-matrix", ["recurrent"]))
    assert cells == {"lstm": 40, "gru": 40, "vanilla": 40}


def test_two_of_four_has_each_product_dense_and_sparse() -> None:
    [dense, sparse, *_] = cases = cases_of("two-of-four")
    assert (len(cases), sparse.kernel.label()) == (8, "m=3072 n=16384 k=1024 sparsity=0.5 pattern=2:4")
    assert dense.kernel.flops() == 2 * sparse.kernel.flops()
    assert sparse.kernel.refusal("bf16", "cuda:0", 2) is None


def test_equal_kernels_are_one_case_with_all_its_sources() -> None:
    sizes = {"m": 1, "n": 2, "k": 3}
    several = [Case.of("gemm", f"DeepBench, {app}", **sizes) for app in ("Resnet", "Vision", "Resnet")]
    [found] = once(several)
    assert found.source == "DeepBench, Resnet; Vision"


def families_of(suite: str) -> Counter[str]:
    return Counter(case.family for case in cases_of(suite))
