"""Other libraries compute what float64 says, side by side; what they lack is skipped with its reason."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels import libraries
from kernels.libraries import TORCH, Node, library, version
from kernels.measurement.case import Case, refusal
from kernels.measurement.device import PRECISIONS, Device
from kernels.measurement.kernel import families
from kernels.measurement.measure import _bind, error_of
from kernels.measurement.timing import Samples
from tests.kernels.families.test_families import CASES
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.saved_documents import ceiling

DEVICE = Device("cpu", cores=1, cache_bytes=1 << 20)
OTHERS = [name for name in libraries.libraries() if name != TORCH]
EVERY = [replace(case, library=name) for case, name in itertools.product(CASES, OTHERS)]
RUNNING = [case for case in EVERY if refusal(case, DEVICE) is None]


@pytest.mark.parametrize("name", OTHERS)
def test_a_library_computes_what_float64_says(name: str) -> None:
    own = [case for case in RUNNING if case.library == name]
    wrong = {str(case): error for case in own if not (error := error_of(case, _bind(case, DEVICE))) <= tolerance()}
    assert wrong == {}
    assert {"gemm", "convolution", "softmax", "activation", "pooling", "fully_connected"} <= {c.family for c in own}


def tolerance() -> float:
    return PRECISIONS["fp32"].tolerance


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
    monkeypatch.setattr(library("openvino"), "PACKAGES", ("not-there",))
    assert version("openvino") is None


@pytest.mark.parametrize(("name", "words"), [("mxnet", "one of: torch, "), ("torch,openvino", "openvino is not")])
def test_bad_input(
    servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    monkeypatch.setattr(library("openvino"), "PACKAGES", ("not-there",))
    done = servemark("kernels", "--library", name, "--out", str(tmp_path / "results"))
    assert (done.code, words in done.err) == (BAD_INPUT, True), done.err


def test_every_family_says_whether_others_have_it() -> None:
    alone = {name for name, made in families().items() if made.node is families()["memory"].node}
    assert alone == {"all_reduce", "attention", "dropout", "memory", "recurrent", "sparse_gemm"}


def test_libraries_stand_side_by_side(servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels import running
    from kernels.measurement import measure
    from servemark.machine import own_process

    def here(_: object, call: Any, *arguments: object, timeout_s: float) -> Any:  # noqa: ARG001
        return call(*arguments)

    monkeypatch.setattr(own_process.OwnProcess, "run", here)
    monkeypatch.setattr(running, "ceiling_of", lambda *_: ceiling())
    monkeypatch.setattr(measure, "time_on_cpu", lambda *_: Samples((1e-3,) * 30, calls=1))
    done = servemark("kernels", "softmax", "--library", "torch,onnxruntime", "--out", str(tmp_path))
    assert done.code == 0, done.err
    assert f"torch {version('torch')}, onnxruntime {version('onnxruntime')}" in done.out
    assert "2 cases: 2 measured" in done.out
