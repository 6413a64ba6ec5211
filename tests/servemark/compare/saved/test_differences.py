"""Saved results against each other: what counts as worse, what does not, and the exit code."""

import dataclasses
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from servemark.compare.saved.differences import compare_sides
from servemark.compare.saved.figures import Gate
from servemark.compare.saved.saved_runs import Run, read_side
from servemark.errors import ResultError
from servemark.results.saved import Saved
from servemark.views.render.html import page
from servemark.views.render.markdown import to_markdown
from servemark.views.render.programs import to_junit
from servemark.views.render.terminal import show
from tests.support.command_line import Servemark
from tests.support.results import histogram_of, latencies, result_of, saved
from tests.support.rounds import document_of, rounds_of

GATE = Gate()


def run_of(p50_ms: float, *, seed: int = 0, count: int = 2000, label: str = "onnxruntime", **figures: Any) -> Run:
    histogram = histogram_of(latencies(p50_ms, count, seed=seed))
    return Run(label, result_of(histogram, **({"rate": 1000 / p50_ms} | figures)), histogram)


def readings(first: list[Run], second: list[Run], threshold: float = 0.05) -> dict[str, str]:
    [subject] = compare_sides(first, second, Gate(threshold=threshold))["subjects"]
    return {difference["figure"]: difference["reading"] for difference in subject["differences"]}


def repeated(p50_ms: float, *, seed: int = 0, **figures: Any) -> list[Run]:
    """Five runs that differ by a tenth of a percent."""
    shares = (1.0, 0.999, 1.001, 1.0005, 0.9995)
    return [run_of(p50_ms * share, seed=seed + number, **figures) for number, share in enumerate(shares)]


def test_repeats_on_both_sides() -> None:
    found = readings(repeated(10), repeated(12, seed=9))
    assert found == {
        "p50 ms": "worse",
        "p99 ms": "worse",
        "inferences/s": "worse",
        "error share": "not worse",
        "top-1 agreement": "not worse",
    }
    assert set(readings(repeated(12), repeated(10, seed=9)).values()) == {"better", "not worse"}


def test_one_run_each_says_nothing() -> None:
    """Requests of one busy moment wait for each other: equal servers would differ significantly in most such runs."""
    found = compare_sides([run_of(10)], [run_of(12, seed=1)], GATE)
    shown = {each["figure"]: each for each in found["subjects"][0]["differences"]}
    for figure, value in (("p50 ms", 1.2), ("inferences/s", 1 / 1.2)):
        ratio = shown[figure]["ratio"]
        assert ratio is not None
        assert (shown[figure]["reading"], ratio["ci95"]) == ("not known", None)
        assert ratio["value"] == pytest.approx(value, rel=0.01)
    assert (shown["top-1 agreement"]["a"], shown["top-1 agreement"]["b"]) == (1, 1)
    assert found["regressions"] == []
    assert found["outcome"] == "undecided"
    assert found["undecided"] == [f"{name} has 1 run: measure with --repeat 5, or more --rounds" for name in ("A", "B")]


def test_two_rounds_that_lie_far_apart_ask_for_more_and_show_no_interval() -> None:
    first, second = [run_of(10), run_of(12)], [run_of(12), run_of(10)]
    found = compare_sides(first, second, Gate(figures="p50,throughput", paired=True))
    latency, rate = (each for each in found["subjects"][0]["differences"] if each["judged"])
    assert (latency["reading"], rate["reading"], found["outcome"]) == ("not known", "not known", "undecided")
    assert latency["ratio"] is not None
    assert latency["ratio"]["ci95"] is None
    words = "too few rounds: 2 do not show how far rounds lie apart; about "
    assert found["undecided"][0].startswith(f"p50 ms: {words}")
    saved = Saved("gate", dict(found))
    terminal = Console(file=io.StringIO(), width=200)
    show(saved, terminal)
    assert isinstance(terminal.file, io.StringIO)
    for shown in (terminal.file.getvalue(), to_junit([saved]), to_markdown([saved]), page("gate", [saved])):
        assert words in " ".join(shown.split())
        assert "0.000 to" not in shown


def test_small_differences_count_where_the_threshold_says_so() -> None:
    first, second = repeated(10), repeated(10.3, seed=9)
    assert readings(first, second)["p50 ms"] == "not worse"
    assert readings(first, second, 0.01)["p50 ms"] == "worse"


def test_repeats_carry_what_varies_from_run_to_run() -> None:
    # The runs of either side lie further apart than a tenth.
    first = [run_of(p50, seed=n) for n, p50 in enumerate((8, 10, 12, 14))]
    second = [run_of(p50 * 1.1, seed=n + 9) for n, p50 in enumerate((8, 10, 12, 14))]
    found = compare_sides(first, second, GATE)
    assert found["regressions"] == []
    assert found["subjects"][0]["runs"] == [4, 4]
    assert found["warnings"] == []
    assert found["outcome"] == "undecided"
    steady = [run_of(p50 * 1.5, seed=n + 9) for n, p50 in enumerate((10.9, 11, 11, 11.1))]
    assert readings([run_of(p50, seed=n) for n, p50 in enumerate((10.9, 11, 11, 11.1))], steady)["p50 ms"] == "worse"


def test_a_short_runs_tail_is_taken_from_all_runs_together() -> None:
    short = [[run_of(p50, seed=n, count=300) for n in range(5)] for p50 in (10, 13)]
    assert readings(short[0], short[1])["p99 ms"] == "worse"
    [subject] = compare_sides(short[0][:4], short[1][:4], GATE)["subjects"]
    [tail] = [d for d in subject["differences"] if d["figure"] == "p99 ms"]
    assert (tail["reading"], tail["ratio"]) == ("not known", None)
    assert "fewer than 5" in str(tail.get("reason"))


def test_few_samples_have_no_tail() -> None:
    [subject] = compare_sides([run_of(10, count=500)], [run_of(20, count=500)], GATE)["subjects"]
    [tail] = [d for d in subject["differences"] if d["figure"] == "p99 ms"]
    assert (tail["reading"], tail.get("reason")) == ("not known", "needs 1,000 samples, has 500: --duration 22")


@pytest.mark.parametrize(
    ("first", "second", "reading"),
    [
        ((0, 0, 0, 0, 0), (0, 0, 0, 0, 0), "not worse"),
        ((0, 1, 0, 0, 0), (0, 0, 2, 0, 0), "not worse"),
        ((0, 0, 0, 0, 0), (60, 55, 65, 62, 58), "worse"),
        ((60, 55, 65, 62, 58), (0, 0, 0, 0, 0), "better"),
        ((60, 60, 60, 60, 60), (61, 61, 61, 61, 61), "not worse"),  # beyond chance, and less than 0.1 %
        # One burst in one run is chance, as far as five runs tell.
        ((0, 0, 0, 0, 0), (0, 0, 200, 0, 0), "undecided"),
    ],
)
def test_more_failures_are_worse_beyond_chance(first: Sequence[int], second: Sequence[int], reading: str) -> None:
    a, b = ([run_of(10, seed=n, errors=errors) for n, errors in enumerate(side)] for side in (first, second))
    assert readings(a, b)["error share"] == reading


def test_a_percentile_among_failed_requests_is_worse_than_one_that_is_not() -> None:
    runs = repeated(10, seed=9, errors=40)
    for run in runs:
        run.latency.failed = 40
    assert readings(repeated(10), runs)["p99 ms"] == "worse"
    assert readings(runs, repeated(10))["p99 ms"] == "better"
    assert readings(runs, runs)["p99 ms"] == "not known"


def test_a_server_that_answers_nothing_is_worse() -> None:
    nothing = Run(
        "onnxruntime", result_of(histogram_of(np.array([])), rate=0.0, errors=100), histogram_of(np.array([]))
    )
    found = readings([run_of(10)], [nothing])
    assert (found["inferences/s"], found["error share"], found["p50 ms"]) == ("worse", "worse", "not known")


def test_outputs_that_leave_the_tolerance_are_worse() -> None:
    assert readings([run_of(10)], [run_of(10, failed=("output_agreement",))])["top-1 agreement"] == "worse"
    assert readings([run_of(10)], [run_of(10, top1=0.8)])["top-1 agreement"] == "worse"
    assert readings([run_of(10, top1=0.8)], [run_of(10)])["top-1 agreement"] == "better"


def test_one_subject_each_is_compared_though_they_differ() -> None:
    found = compare_sides([run_of(10)], [run_of(20, label="pytorch", engine="pytorch")], GATE)
    assert found["subjects"][0]["b"] == "ranking on pytorch, concurrency 1 for 10 s, batch 1"
    assert {"key": "request.engine", "a": "onnxruntime", "b": "pytorch"} in found["differing"]
    assert {"key": "engine", "a": "onnxruntime", "b": "pytorch"} in found["differing"]
    assert found["outcome"] == "undecided"


def test_several_subjects_are_matched_and_what_is_only_on_one_side_is_named() -> None:
    first = [run_of(10), run_of(30, label="pytorch")]
    found = compare_sides(first, [*first, run_of(5, label="openvino")], GATE)
    assert len(found["subjects"]) == 2
    assert "only in B: ranking on openvino, concurrency 1 for 10 s, batch 1" in found["warnings"]


def test_different_workloads_are_not_compared() -> None:
    with pytest.raises(ResultError, match="nothing to compare"):
        compare_sides([run_of(10)], [run_of(10, workload="ncf")], GATE)


def test_circumstances_that_differ_are_named() -> None:
    first, second = run_of(10), run_of(10, seed=1, failed=("completed",))
    environment: Any = {**first.result["environment"], "cpu": "b", "packages": {"numpy": "2"}, "collected": "later"}
    changed = dataclasses.replace(second, result={**second.result, "environment": environment})
    found = compare_sides([first], [changed], GATE)
    assert found["differing"] == [{"key": "cpu", "a": "a", "b": "b"}, {"key": "packages.numpy", "a": "1", "b": "2"}]
    assert "B: 1 of 1 runs is INVALID (completed): measure again, or --allow-invalid" in found["undecided"]


def test_cores_that_were_kept_awake_on_one_side_are_named() -> None:
    first, second = run_of(10), run_of(10, seed=1)
    awake: Any = {**second.result["figures"], "generator.cpu_latency": {"value": 0, "unit": "us"}}
    changed = dataclasses.replace(second, result={**second.result, "figures": awake})
    assert compare_sides([first], [changed], GATE)["differing"] == [{"key": "generator.cpu_latency", "a": None, "b": 0}]


def test_an_edited_configuration_is_named() -> None:
    groups = [{"count": 1, "kind": "KIND_CPU", "gpus": []}]
    # A server may leave out what is zero.
    first = {"max_batch_size": 64, "instance_group": groups, "dynamic_batching": {"max_queue_delay_microseconds": 0}}
    second = {
        "max_batch_size": 64,
        "instance_group": [{"count": 2, "kind": "KIND_CPU"}],
        "dynamic_batching": {"max_queue_delay_microseconds": 300},
        "parameters": {"intra_op_thread_count": {"string_value": "1"}},
    }
    runs = [run_of(10, model_config=config, artifact_sha256="0") for config in (first, second)]
    found = compare_sides([runs[0]], [runs[1]], GATE)
    assert found["differing"] == [
        {"key": "model_config.dynamic_batching.max_queue_delay_microseconds", "a": None, "b": 300},
        {"key": "model_config.instance_group.0.count", "a": 1, "b": 2},
        {"key": "model_config.parameters.intra_op_thread_count.string_value", "a": None, "b": "1"},
    ]


def test_a_group_without_a_value_is_another_than_none() -> None:
    batching = {"max_batch_size": 8, "dynamic_batching": {"preserve_ordering": False}}
    runs = [run_of(10, model_config=config) for config in (batching, {"max_batch_size": 8})]
    found = compare_sides([runs[0]], [runs[1]], GATE)
    assert found["differing"] == [{"key": "model_config.dynamic_batching", "a": {}, "b": None}]


def test_configurations_too_large_to_keep_differ_by_their_digests() -> None:
    large: dict[str, Any] = {"model_config": None, "model_config_sha256": "a"}
    runs = [run_of(10, **large), run_of(10, **large), run_of(10, **(large | {"model_config_sha256": "b"}))]
    runs += [run_of(10, model_config={"backend": "x"}, model_config_sha256="b")]
    found = [compare_sides([runs[0]], [run], GATE)["differing"] for run in runs[1:]]
    differing = [{"key": "model_config_sha256", "a": "a", "b": "b"}]
    assert found == [[], differing, differing]


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """Directories of five repeats each, the second a quarter slower."""
    for name, p50_ms in (("before", 10.0), ("after", 12.5)):
        for number in range(5):
            saved(tmp_path / name / str(number), p50_ms * (1 + number / 500), seed=number)
    return tmp_path / "before", tmp_path / "after"


def test_the_exit_code_says_whether_b_is_worse(sides: tuple[Path, Path], servemark: Servemark) -> None:
    before, after = map(str, sides)
    code, out, _ = servemark("compare", before, after)
    assert code == 0
    assert "after is worse: ranking on onnxruntime, concurrency 1 for 10 s, batch 1: p50 ms" in out
    assert servemark("compare", before, after, "--fail-on", "regression").code == 5
    code, out, _ = servemark("compare", after, before, "--fail-on", "regression")
    assert code == 0
    assert "before is not worse than after" in out
    assert servemark("compare", before, after, "--fail-on", "regression", "--threshold", "40").code == 0


def test_sides_may_be_single_results_or_lists(sides: tuple[Path, Path], servemark: Servemark) -> None:
    before, after = sides
    lists = [",".join(str(side / n) for n in "012") for side in (before, after)]
    code, out, _ = servemark("compare", *lists, "--fail-on", "regression", "--json")
    assert code == 5
    found = json.loads(out)
    assert found["subjects"][0]["runs"] == [3, 3]
    assert (found["a"], found["b"]) == ("before", "after")
    single = [str(before / "0"), str(after / "0" / "result.json")]
    code, out, _ = servemark("compare", *single, "--fail-on", "regression")
    assert code == 2
    assert "0 has 1 run: measure with --repeat 5" in out


def test_a_comparisons_rounds_are_repeats(tmp_path: Path) -> None:
    document: Any = json.loads(json.dumps(document_of(rounds_of(a=1, b=2), ["a", "b"])))
    turn = document["turns"][0]
    document["turns"] = [{**turn, "directory": f"{n}", "label": "a#2", "partial": n == 3} for n in range(4)]
    for n in range(4):
        saved(tmp_path / str(n), 10)
    (tmp_path / "comparison.json").write_text(json.dumps(document))
    assert [run.label for run in read_side(str(tmp_path))] == ["a#2"] * 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "WORKLOAD"),
        (["{good}"], "1 results were named"),
        (["{good}", "{good}", "{good}"], "3 results were named"),
        (
            ["{good}", "{good}", "--fail-on", "noise"],
            "`servemark list figures` has all",
        ),
        (["{good}", "{missing}"], "there is no result"),
        (["{good}", "{empty}"], "holds no result"),
        (["{good}", "{partial}"], "was cut short"),
        (["{good}", "{bare}"], "histograms.json cannot be read"),
        (["ranking", "{good}"], "WORKLOAD --engines A,B"),
    ],
)
def test_bad_results(
    arguments: list[str],
    words: str,
    servemark: Servemark,
    tmp_path: Path,
) -> None:
    saved(tmp_path / "good", 10)
    saved(tmp_path / "partial", 10, partial=True)
    (saved(tmp_path / "bare", 10) / "histograms.json").unlink()
    (tmp_path / "empty").mkdir()
    places = {name: tmp_path / name for name in ("good", "partial", "bare", "empty", "missing")}
    code, _, err = servemark("compare", *(argument.format(**places) for argument in arguments))
    assert code == 3
    assert words in err


@pytest.mark.parametrize("key", ["partial", "scenario", "engine", "request", "environment", "batch_size"])
def test_a_result_without_its_keys_is_named(key: str, tmp_path: Path) -> None:
    directory = saved(tmp_path / "run", 10)
    file = directory / "result.json"
    assert read_side(str(directory))
    file.write_text(json.dumps({name: value for name, value in json.loads(file.read_text()).items() if name != key}))
    with pytest.raises(ResultError, match=rf"{directory} is damaged: .* `{key}`"):
        read_side(str(directory))


def test_latencies_of_two_clocks_are_not_compared_without_a_word() -> None:
    first, second = repeated(10), repeated(10, seed=9)
    assert compare_sides(first, second, GATE)["warnings"] == []
    for run in second:
        run.result["details"]["clock"] = {"receive": "kernel"}
    [warning] = compare_sides(first, second, GATE)["warnings"]
    assert "latencies of two clocks (A: process, B: kernel)" in warning
