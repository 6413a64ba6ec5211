"""Comparisons as a reader has them, beside a snapshot (SERVEMARK_SNAPSHOTS=write writes it anew)."""

import pytest

from servemark.output import EVERYTHING
from servemark.results.saved import Saved
from servemark.search.refinement import HighestRate
from tests.servemark.compare.interleaved.test_turn import NOISE, RISING
from tests.servemark.compare.test_quality import scored
from tests.servemark.views.snapshots import assert_unchanged
from tests.servemark.views.test_snapshots import frozen, terminal
from tests.support.rounds import Row, document_of, rounds_of, turn


def _rounds() -> dict[str, Row]:
    """Comparisons by what is noted of their rounds."""
    scattered = [turn(n, label, 10, windows=NOISE) for n in range(1, 6) for label in "ab"]
    scattered[0] = turn(1, "a", 10, windows=RISING, failed=("steady_state",))
    scattered[3] = turn(2, "b", 10, windows=NOISE, failed=("other_load",))
    scattered[3].result["figures"]["cpu.other_share"] = {"value": 0.31, "unit": "share"}
    invalid = [*rounds_of(4, a=1, b=2), turn(5, "a", 10), turn(5, "b", 20, failed=("error_rate",))]
    cut = [*rounds_of(5, a=1, b=2), turn(6, "a", 10), turn(6, "b", 900, partial=True)]
    # As on an H200: 50 inferences/s in four rounds and 972 in one, so that most requests are of the fast round.
    torn = [turn(n, label, p50) for n in range(1, 6) for label, p50 in (("a", 1 if n == 2 else 20), ("b", 10))]
    drift = [turn(n, "a", 10 / (1 + 0.1 * n)) for n in range(1, 6)]
    still = [turn(n, "b", 10 * share) for n, share in enumerate((1.0, 1.2, 0.9, 1.1, 1.0), start=1)]
    both = [turn(n, label, 10 / (1 + 0.1 * n)) for n in range(1, 6) for label in "ab"]
    open_loop = [turn(n, label, p50, rate=50.0) for n in range(1, 6) for label, p50 in (("a", 10), ("b", 200))]
    for each in open_loop:
        each.result["figures"]["throughput.scheduled"]["value"] = 50.0
    return {
        "scattered windows, and other work": document_of(scattered, ["a", "b"]),
        "an invalid round": document_of(invalid, ["a", "b"]),
        "cut short": document_of(cut, ["a", "b"], "interrupted"),
        "rounds far apart": document_of(torn, ["a", "b"]),
        "one engine drifts": document_of([*drift, *still], ["a", "b"]),
        "the machine drifts": document_of(both, ["a", "b"]),
        "requests in flight": document_of(open_loop, ["a", "b"]),
    }


def _engines() -> dict[str, Row]:
    """Comparisons by what is said of their engines."""
    left_out = document_of(rounds_of(a=1, b=2, c=1), list("abc"), left_out=[{"label": "tensorrt", "reason": "no GPU"}])
    left_out["rows"][1]["precision"] = "int8"
    tuned = {
        "a": {"outcome": "better", "ratio": {"value": 1.318}, "reason": "it does more", "taken": "2 x 1 threads"},
        "b": {"outcome": "same", "ratio": None, "reason": "none is faster", "taken": "1 x all threads"},
    }
    configurations = {"a": {"instances": 2, "threads": 1}, "b": {"instances": 1, "threads": 0}}
    ran = [turn(n, "a", 10, provider="CPUExecutionProvider") for n in range(1, 3)]
    ran += [turn(n, "b", 10, provider="CPU:0 graph") for n in range(1, 3)]
    reduced = turn(1, "b", 10, top1=0.5, precision="int8")
    reduced.result["figures"]["outputs.cosine_min"]["value"] = 0.976
    reduced.result["details"]["outputs"]["tolerance"] = {"min_cosine": 0.9}
    found = HighestRate(None, None, "x", [400.0, 410.0, 404.0])
    twice = HighestRate(None, None, "x", [800.0, 820.0, 808.0])
    none = HighestRate(None, "p99 needs 1,126 requests in a run; --duration 60", "max-rate-a")
    return {
        "one is left out, and precisions differ": left_out,
        "tuned first": document_of(ran, ["a", "b"], tuned=tuned, configurations=configurations),
        "servers that ran already": document_of(ran, ["a", "b"], configurations={}),
        "reduced precision": document_of([turn(1, "a", 10), reduced], ["a", "b"]),
        "highest rates": document_of(rounds_of(5, a=1, b=1), ["a", "b"], highest={"a": found, "b": twice}),
        "no highest rate": document_of(rounds_of(5, a=1, b=1), ["a", "b"], highest={"a": none}),
    }


def _scores() -> dict[str, Row]:
    """Comparisons by what is said of the answers' quality."""
    bounds = [scored("o", 0.8), scored("o fp16", 0.7995), scored("o int8", 0.795), scored("o fp8", 0.7)]
    other = [scored("o", 0.8), scored("o int8", 0.7, sha="b", examples=400)]
    return {
        "quality: bounds that are kept": document_of(bounds, [each.label for each in bounds]),
        "quality: other examples": document_of(other, ["o", "o int8"]),
        "quality: none computes in fp32": document_of([scored("o int8", 0.7)], ["o int8"]),
    }


def test_a_comparison_is_shown_as_the_snapshot_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {**_rounds(), **_engines(), **_scores()}
    shown = {name: terminal(frozen(Saved("c", each)), monkeypatch, EVERYTHING) for name, each in found.items()}
    assert_unchanged("comparisons", "\n".join(f"== {name}\n{text}" for name, text in shown.items()))
