"""Other libraries compute what float64 says, side by side; what they lack is skipped with its reason."""

import itertools
from dataclasses import replace

import pytest

from kernels import libraries
from kernels.libraries import TORCH, Node, library, version
from kernels.measurement.case import Case, refusal
from kernels.measurement.device import PRECISIONS, Device
from kernels.measurement.kernel import families
from kernels.measurement.measure import _bind, error_of
from servemark.frameworks import DISTRIBUTIONS
from tests.kernels.families.test_families import CASES

DEVICE = Device("cpu", cores=1, cache_bytes=1 << 20)
OTHERS = [name for name in libraries.libraries() if name != TORCH]
EVERY = [replace(case, library=name) for case, name in itertools.product(CASES, OTHERS)]
RUNNING = [case for case in EVERY if refusal(case, DEVICE) is None]


@pytest.mark.parametrize("name", OTHERS)
def test_a_library_computes_what_float64_says(name: str) -> None:
    own = [case for case in RUNNING if case.library == name]
    errors = {str(case): error_of(case, _bind(case, DEVICE)) for case in own}
    assert not {name: error for name, error in errors.items() if not error <= PRECISIONS["fp32"].tolerance}
    assert {"gemm", "convolution", "softmax", "activation", "pooling", "fully_connected"} <= {c.family for c in own}


@pytest.mark.parametrize(
    ("case", "name", "reason"),
    [
        (Case.of("lrn", n=1, c=8, h=2, w=2), "tensorflow", "no LRN as one operator"),
        (Case.of("attention", batch=1, heads=1, queries=2, keys=2, width=2), "onnxruntime", "not a single node"),
        (Case.of("gemm", m=2, n=2, k=2, groups=2), "openvino", "not a single node"),
        (replace(Case.of("softmax", rows=2, width=2), precision="bf16"), "openvino", "in fp32 on the CPU"),
    ],
)
def test_what_a_library_lacks_is_said(case: Case, name: str, reason: str) -> None:
    assert reason in (refusal(replace(case, library=name), DEVICE) or "")


def test_tensorflow_has_no_groups() -> None:
    node = Node("Conv", (0, 1), attributes={"group": 2, "kernel_shape": (3, 3)})
    assert "grouped" in (library("tensorflow").lacks(node) or "")


def test_versions_are_those_that_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(version(name) for name in libraries.libraries())
    monkeypatch.setitem(DISTRIBUTIONS, "openvino", ("not-there",))
    assert version("openvino") is None


def test_every_family_says_whether_others_have_it() -> None:
    alone = {name for name, made in families().items() if made.node is families()["memory"].node}
    assert alone == {"all_reduce", "attention", "dropout", "memory", "recurrent", "sparse_gemm"}
