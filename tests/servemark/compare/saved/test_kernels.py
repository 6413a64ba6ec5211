"""Saved kernels compared and followed: the median case decides, families are shown, few cases do not decide."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from servemark.errors import ExitCode
from servemark.results.schema.header import opening
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.documents import validated
from tests.support.saved_documents import kernels

TIMES = {"gemm": [1.0, 2.0, 3.0, 4.0, 5.0], "softmax": [0.1, 0.2, 0.3]}


@pytest.fixture(scope="module")
def template() -> Any:
    return kernels(dict(opening()))


def write(folder: Path, template: Any, factors: dict[str, float], **changes: Any) -> str:
    """A result whose cases take so many times as long, by family."""
    document = copy.deepcopy(template) | {"partial": False, "busy_share": 0.0, "families": list(TIMES)} | changes
    [measured, *_] = document["cases"]
    document["cases"] = [
        copy.deepcopy(measured)
        | {"family": family, "label": f"n={n}", "ms": measured["ms"] | {"median": ms * factors.get(family, 1.0)}}
        for family, times in TIMES.items()
        for n, ms in enumerate(times)
    ]
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(document))
    return str(folder)


def test_the_median_case_decides_and_families_are_shown(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    first = write(tmp_path / "a", template, {})
    second = write(tmp_path / "b", template, {"gemm": 1.3, "softmax": 1.2}, library="torch 9")
    done = servemark("compare", first, second, "--fail-on", "regression", "--json")
    assert done.code == ExitCode.REGRESSION
    found = validated(json.loads(done.out))
    [subject] = found["subjects"]
    rows = {row["figure"]: row for row in subject["differences"]}
    assert rows["all kernels ms"]["ratio"]["value"] == pytest.approx(1.3)
    assert rows["all kernels ms"]["ratio"]["ci95"] == pytest.approx([1.2, 1.3])
    assert rows["softmax ms"]["ratio"]["value"] == pytest.approx(1.2)
    assert (rows["softmax ms"]["reading"], rows["softmax ms"]["judged"]) == ("not known", False)
    assert {"key": "library", "a": template["library"], "b": "torch 9"} in found["differing"]
    shown = servemark("compare", first, second)
    assert (shown.code, "b is worse" in shown.out) == (0, True)
    assert "3 of 6 cases" in shown.out


def test_equal_kernels_are_not_worse(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    sides = [write(tmp_path / name, template, {"gemm": factor}) for name, factor in (("a", 1.0), ("b", 1.01))]
    assert servemark("compare", *sides, "--fail-on", "regression").code == 0


def probed(folder: Path, template: Any, factor: float, bound: str, **probe_ms: float) -> str:
    """A result whose cases take so many times as long, beside a product and a copy of the machine."""
    own = {"bound": bound, "probe": {"product_ms": 2.0, "copy_ms": 4.0, **probe_ms}}
    cases = [case | own for case in template["cases"]]
    return write(folder, template | {"cases": cases}, dict.fromkeys(TIMES, factor))


@pytest.mark.parametrize(
    ("kernels_slower", "probe", "reading"),
    [
        (1.2, 1.0, "worse"),
        (1.2, 1.18, "undecided"),  # the machine alone made most of it
        (1.5, 1.18, "worse"),  # that is more than the machine's share
        (1.0, 0.8, "undecided"),  # a faster machine may hide a loss
        (1.0, 1.2, "not worse"),
        (1.0, 1.03, "not worse"),
    ],
)
def test_a_machine_that_changed_decides_nothing(
    servemark: Servemark, tmp_path: Path, template: Any, kernels_slower: float, probe: float, reading: str
) -> None:
    first = probed(tmp_path / "a", template, 1.0, "compute")
    second = probed(tmp_path / "b", template, kernels_slower, "compute", product_ms=2.0 * probe)
    done = servemark("compare", first, second, "--json")
    assert done.code == 0, done.err
    found = validated(json.loads(done.out))
    rows = {row["figure"]: row for row in found["subjects"][0]["differences"]}
    assert rows["all kernels ms"]["reading"] == found["outcome"] == reading
    assert rows["the machine's product ms"]["ratio"]["value"] == pytest.approx(probe)
    assert (rows["the machine's copy ms"]["reading"], rows["the machine's copy ms"]["judged"]) == ("not worse", False)
    if reading == "undecided":
        without = kernels_slower / probe
        words = f"the machine's product took {probe:.2f} times as long in B; without that the ratio is {without:.2f}"
        assert words in found["undecided"][0]
    assert rows["all kernels / machine"]["ratio"]["value"] == pytest.approx(kernels_slower / probe)


def test_where_memory_bounds_a_case_copies_tell_how_the_machine_changed(
    servemark: Servemark, tmp_path: Path, template: Any
) -> None:
    first = probed(tmp_path / "a", template, 1.0, "memory")
    second = probed(tmp_path / "b", template, 1.3, "memory", copy_ms=5.2)
    found = json.loads(servemark("compare", first, second, "--json").out)
    rows = {row["figure"]: row for row in found["subjects"][0]["differences"]}
    assert rows["all kernels / machine"]["ratio"]["value"] == pytest.approx(1.0)
    assert "the machine's copy took 1.30 times as long in B" in found["undecided"][0]


def test_what_kernels_do_not_have(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    first = write(tmp_path / "a", template, {})
    done = servemark("compare", first, first, "--fail-on", "p99")
    assert (done.code, "kernels, which have one figure" in done.err) == (BAD_INPUT, True)
    (tmp_path / "empty").mkdir()
    assert servemark("compare", first, str(tmp_path / "empty")).code == BAD_INPUT


def test_a_history_of_families(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    for number in range(24):
        changes = {"created": f"2026-01-{number + 1:02}T00:00:00+00:00"}
        write(tmp_path / f"{number}", template, {"gemm": 1.0 if number < 16 else 1.5}, **changes)
    write(tmp_path / "busy", template, {"gemm": 9.0}, busy_share=0.9)
    beside_others = [case | {"other_cpu_share": 0.4} for case in template["cases"]]
    write(tmp_path / "beside", template | {"cases": beside_others}, {"gemm": 9.0})
    done = servemark("history", str(tmp_path), "--metric", "kernel_time", "--json", "--fail-on", "regression")
    assert done.code == ExitCode.REGRESSION
    series = {each["subject"].partition(":")[0]: each for each in validated(json.loads(done.out))["series"]}
    assert series["gemm"]["outcome"] == "worse"
    assert series["gemm"]["changes"][0]["ratio"] == pytest.approx(1.5)
    assert series["softmax"]["outcome"] == "not shown"
    assert series["all kernels"]["results"][0]["value"] == pytest.approx((120 * 0.006) ** (1 / 8))
