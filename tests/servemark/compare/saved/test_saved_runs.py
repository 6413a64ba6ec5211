"""Runs of a side that count, the limits of a side without enough of them, the names of sides, and baselines."""

import json
from pathlib import Path

import pytest

from servemark.compare.saved import saved_runs
from servemark.compare.saved.saved_runs import Side, faults, names_of, read_side
from tests.support.command_line import Servemark
from tests.support.results import NO_FIGURE, histogram_of, latencies, result_of, saved


def side(folder: Path, *failed: str, p50_ms: float = 10.0) -> Path:
    """Five runs that differ by a thousandth; the first ones fail these constraints, "": none."""
    for number in range(5):
        broken = tuple(filter(None, failed[number : number + 1]))
        saved(folder / str(number), p50_ms * (1 + number / 1000), seed=number, failed=broken)
    return folder


def test_runs_that_the_machine_disturbed_are_left_out_while_most_are_good(tmp_path: Path) -> None:
    side(tmp_path, "completed", "completed")
    runs = read_side(str(tmp_path))
    found = Side.of("before", runs, allow_invalid=False)
    assert (len(found.runs), found.trouble) == (3, None)
    assert found.note == "before: 2 of 5 runs are INVALID (completed) and left out"
    found = Side.of("before", runs[:4], allow_invalid=False)
    assert found.trouble == "before: 2 of 4 runs are INVALID (completed): measure again, or --allow-invalid"
    assert Side.of("before", runs[:2], allow_invalid=True).trouble is None


def test_runs_that_other_work_spoilt_need_a_quiet_machine_not_more_of_them(tmp_path: Path) -> None:
    side(tmp_path, *["completed"] * 3)
    for file in tmp_path.glob("*/result.json"):
        file.write_text(file.read_text().replace('"completed"', '"generator_pause"'))
    trouble = Side.of("before", read_side(str(tmp_path)), allow_invalid=False).trouble
    assert trouble is not None
    assert trouble.endswith("stop other work on this machine and measure again, or --allow-invalid")


def test_what_a_worse_server_does_is_evidence() -> None:
    histogram = histogram_of(latencies(10))
    assert faults(result_of(histogram, failed=("output_agreement",))) == []
    assert faults(result_of(histogram, failed=("error_rate", "steady_state"))) == []
    drifting = [1 + 0.1 * number for number in range(10)]
    assert faults(result_of(histogram, failed=("steady_state",), windows=drifting)) == ["steady_state"]
    assert faults(result_of(histogram, failed=("completed", "error_rate"))) == ["completed"]


def test_other_work_on_the_machine_spoils_runs_that_are_not_interleaved() -> None:
    result = result_of(histogram_of(latencies(10)))
    busy = {**NO_FIGURE, "name": "other_load", "ok": False, "remedy": ""}
    result["verdict"]["constraints"].append(busy)
    assert faults(result) == ["other_load"]
    assert faults(result, interleaved=True) == []


def test_a_round_counts_as_a_whole(tmp_path: Path) -> None:
    side(tmp_path / "a", "completed")
    side(tmp_path / "b", "", "", "completed")
    first, second = (read_side(str(tmp_path / name)) for name in "ab")
    found = Side.of("a", first, second, allow_invalid=False), Side.of("b", second, first, allow_invalid=False)
    assert [each.runs for each in found] == [[runs[1], runs[3], runs[4]] for runs in (first, second)]
    assert [each.trouble for each in found] == [None, None]


def test_names_are_the_folders() -> None:
    assert names_of(("results/before", "results/after/")) == ("before", "after")
    assert names_of(("results/before/1,results/before/2", "results/after/result.json")) == ("before", "after")
    assert names_of(("main/results", "branch/results")) == ("main/results", "branch/results")
    assert names_of(("same", "same")) == ("same (A)", "same (B)")


@pytest.mark.parametrize(
    ("bad", "flags", "code", "words"),
    [
        (3, (), 2, "undecided: after: 3 of 5 runs are INVALID (completed): measure again, or --allow-invalid"),
        (3, ("--allow-invalid",), 0, "after is not worse than before"),
        (1, (), 0, "after: 1 of 5 runs is INVALID (completed) and left out"),
    ],
)
def test_a_gate_does_not_pass_what_it_cannot_judge(
    bad: int, flags: tuple[str, ...], code: int, words: str, tmp_path: Path, servemark: Servemark
) -> None:
    side(tmp_path / "before")
    side(tmp_path / "after", *["completed"] * bad)
    sides = [str(tmp_path / name) for name in ("before", "after")]
    found = servemark("compare", *sides, "--fail-on", "regression", *flags)
    assert found.code == code
    assert words in found.out


def test_noise_is_undecided_and_says_how_many_runs_would_do(tmp_path: Path, servemark: Servemark) -> None:
    for name, shift in (("before", 0), ("after", 1)):
        for number, p50_ms in enumerate((8.0, 9.0, 10.0, 11.5, 12.0)):
            saved(tmp_path / name / str(number), p50_ms + shift / 100, seed=number + 9 * shift)
    sides = [str(tmp_path / name) for name in ("before", "after")]
    code, out, _ = servemark("compare", *sides, "--fail-on", "p99", "--threshold", "10", "--json")
    assert code == 2
    document = json.loads(out)
    assert document["outcome"] == "undecided"
    [p99] = [d for d in document["subjects"][0]["differences"] if d["judged"]]
    assert p99["figure"] == "p99 ms"
    assert p99["minimum_detectable_change"] > 0.2
    seen = p99["minimum_detectable_change"]
    assert document["undecided"] == [
        f"p99 ms: would see {seen:.0%} in 80 of 100 cases; "
        f"for 10% about {p99['runs_needed']} runs of 10 s on each side, has 5 runs"
    ]
    # Judged by what is not noisy, it passes.
    page = tmp_path / "summary.md"
    assert servemark("compare", *sides, "--fail-on", "errors", "--markdown", str(page)).code == 0
    first, *_ = page.read_text().splitlines()
    assert first == "### after is not worse than before by 5 % (errors)"
    assert "| p99 ms |" in page.read_text()


def test_a_change_too_near_to_the_threshold_needs_more_runs(tmp_path: Path, servemark: Servemark) -> None:
    for name, factor in (("before", 1.0), ("after", 1.04)):
        for number, p50_ms in enumerate((9.8, 9.9, 10.0, 10.1, 10.2)):
            saved(tmp_path / name / str(number), p50_ms * factor, seed=number + 9 * (factor > 1))
    sides = [str(tmp_path / name) for name in ("before", "after")]
    code, out, _ = servemark("compare", *sides, "--fail-on", "p50", "--json")
    assert code == 2
    document = json.loads(out)
    [p50] = [each for each in document["subjects"][0]["differences"] if each["judged"]]
    assert p50["minimum_detectable_change"] < 0.05
    assert p50["runs_needed"] > 5
    many = f"about {p50['runs_needed']} runs of 10 s on each side, has 5 runs"
    assert document["undecided"] == [f"p50 ms: too near to 5%; to tell {many}"]


def test_a_later_result_is_compared_with_a_kept_one(
    servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_runs, "BASELINES", tmp_path / "baselines")
    assert "no baseline yet" in servemark("baseline").out
    before, after = side(tmp_path / "before"), side(tmp_path / "after", p50_ms=12)
    assert "--baseline main" in servemark("baseline", "main", str(before)).err
    assert servemark("baseline").out.split() == ["main"]
    assert "--force" in servemark("baseline", "main", str(after)).err
    assert servemark("baseline", "one", str(after / "0" / "result.json")).code == 0
    assert servemark("compare", str(after / "0"), "--baseline", "one").code == 0
    for path in sorted(before.rglob("*"), reverse=True):  # the copy stands by itself
        path.unlink() if path.is_file() else path.rmdir()
    worse = servemark("compare", str(after), "--baseline", "main", "--fail-on", "p50")
    assert (worse.code, "p50" in worse.out) == (5, True)
    assert servemark("baseline", "main", str(after), "--force").code == 0
    assert servemark("compare", str(after), "--baseline", "main", "--fail-on", "p50").code == 0


def test_what_is_no_result_is_not_kept(servemark: Servemark, tmp_path: Path) -> None:
    done = servemark("baseline", "main", str(tmp_path))
    assert (done.code, "holds no result" in done.err) == (3, True)
