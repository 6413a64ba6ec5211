"""The load of a saved run: its words, and its identity. Runs are repeats only where every field is the same."""

from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from servemark.compare.history import collect
from servemark.compare.saved.saved_runs import subjects
from servemark.documents.load import ClosedLoop, ConstantRate, Distribution, Load, MaxRate, Stage, Stages, Trace
from servemark.documents.saved_load import describe, described, load_key, load_of, rate_of, title_of
from servemark.errors import ResultError
from servemark.figures.registry import find
from servemark.results import directory
from servemark.results.schema.run import Scenario, TraceLoad
from tests.servemark.compare.saved.test_differences import run_of

GAMMA, CONSTANT = Distribution.GAMMA, Distribution.CONSTANT
REPLAYED = {"sha256": "ab" * 32, "arrivals": 100, "samples": False, "first": None}
EIGHT = tuple(Stage(10.0, 100.0 * number) for number in range(1, 9))
DATED = {**REPLAYED, "arrivals": 12345, "first": "2026-11-20T10:00:00.000+00:00"}


def result_at(load: Load, *, resolved: Any = (), trace: Any = None, **scenario: Any) -> Any:
    """A result of this load."""
    found: Any = run_of(10).result
    cv = 2.0 if getattr(load, "distribution", None) is GAMMA else None
    found["request"]["load"] = msgspec.to_builtins(load)
    found["resolved"] |= dict(resolved)
    found["scenario"] |= {"gamma_cv": cv, "trace": trace, **scenario}
    return found


SEARCH = MaxRate(bounds=(1.0, 500.0))


REPLAYS = "trace t.csv, 12,345 arrivals from 2026-11-20T10:00:00.000+00:00 at 2 times the speed"
RISING = "10 s at 100/s, 10 s from 100 to 200/s constant"


@pytest.mark.parametrize(
    ("load", "more", "row", "heading"),
    [
        (ClosedLoop(concurrency=8), {}, "concurrency 8", "closed loop, concurrency 8"),
        (ConstantRate(rate=400.0), {}, "400/s poisson", "open loop, poisson 400 requests/s"),
        (ConstantRate(rate=9, distribution=GAMMA), {}, "9/s gamma (cv 2)", "open loop, gamma 9 requests/s"),
        (ConstantRate(rate=90.0), {"mix": []}, "90/s poisson", "open loop, poisson 90 requests/s in all"),
        (
            Stages(stages=(EIGHT[0], Stage(10.0, 100.0, 200.0)), distribution=CONSTANT),
            {},
            RISING,
            f"open loop, {RISING}",
        ),
        (Trace(file="/data/t.csv"), {}, "trace t.csv, 100 arrivals", "open loop, trace t.csv, 100 arrivals"),
        (Trace(file="t.csv", speed=2.0), {}, REPLAYS, f"open loop, {REPLAYS}"),
        (SEARCH, {"max_rate": {}}, "123.456/s poisson", "highest rate, poisson 123.5 requests/s"),
    ],
)
def test_each_load_has_its_words(load: Load, more: dict[str, Any], row: str, heading: str) -> None:
    trace = (DATED if row == REPLAYS else REPLAYED) if isinstance(load, Trace) else None
    result = result_at(load, resolved={"rate": 123.456}, trace=trace) | more
    assert (described(result), title_of(result)) == (row, heading)


def test_many_stages_are_counted() -> None:
    result = result_at(Stages(stages=EIGHT))
    assert describe(Stages(stages=EIGHT), result["scenario"]).endswith("10 s at 600/s, 2 more poisson")


def test_the_rate_is_the_request_s_or_the_one_that_a_search_chose() -> None:
    assert rate_of(result_at(ConstantRate(rate=7.0))) == 7
    assert rate_of(result_at(SEARCH, resolved={"rate": 33.0})) == 33
    assert rate_of(result_at(ClosedLoop())) is None
    with pytest.raises(ResultError, match=r"lacks resolved\.rate"):
        rate_of(result_at(SEARCH))
    with pytest.raises(ResultError, match=r"request\.load is damaged: .*rate"):
        load_of(result_at(ClosedLoop()) | {"request": {"load": {"kind": "constant-rate"}}})


BASES: dict[type, Any] = {
    ClosedLoop: ClosedLoop(),
    ConstantRate: ConstantRate(rate=100.0, distribution=GAMMA),
    Stages: Stages(stages=EIGHT),
    Trace: Trace(file="t.csv"),
}
CHANGES: dict[type, dict[str, Any]] = {
    ClosedLoop: {"concurrency": 4, "think_time_s": (0.0, 0.5)},
    ConstantRate: {"rate": 101.0, "distribution": CONSTANT},
    Stages: {"stages": (*EIGHT[:7], Stage(10.0, 900.0)), "distribution": CONSTANT},
    Trace: {"speed": 2.0},
}
MADE = {
    "gamma_cv": {"gamma_cv": 8.0},
    "duration_s": {"duration_s": 20.0},
    "trace.sha256": {"trace": REPLAYED | {"sha256": "cd" * 32}},
    "trace.arrivals": {"trace": REPLAYED | {"arrivals": 101}},
    "trace.samples": {"trace": REPLAYED | {"samples": True}},
    "trace.first": {"trace": REPLAYED | {"first": "2026-01-01T00:00:00.000+00:00"}},
}
NO_PART = {"measured_s": 10.2, "warmup_s": 3.0, "warmup": {"method": "MSER"}}
"""Measured values, and values before the interval, which are not a part of the load."""


def groups(*results: Any) -> int:
    runs = [run_of(10) for _ in results]
    for run, result in zip(runs, results, strict=True):
        run.result.update(result)
    return len(subjects(runs))


def test_every_field_of_a_load_is_considered() -> None:
    for kind, base in BASES.items():
        not_asked = {"warmup", "file", "gamma_cv", "duration_s"}  # elsewhere, or no part of the load
        assert {*base.__struct_fields__} - not_asked == {*CHANGES[kind]}
    fields = {*get_type_hints(Scenario)} - {"trace"} | {f"trace.{name}" for name in get_type_hints(TraceLoad)}
    assert fields == {*MADE, *NO_PART}


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, values in CHANGES.items() for field in values])
def test_another_load_makes_another_group(kind: type, field: str) -> None:
    other = msgspec.structs.replace(BASES[kind], **{field: CHANGES[kind][field]})
    cv = {"gamma_cv": 2.0}
    assert groups(result_at(BASES[kind], **cv), result_at(other, **cv)) == 2


@pytest.mark.parametrize("change", MADE)
def test_the_same_load_made_otherwise_makes_another_group(change: str) -> None:
    base = result_at(BASES[Trace], trace=REPLAYED)
    assert groups(base, {**base, "scenario": base["scenario"] | MADE[change]}) == 2


def test_the_shares_of_a_mix_and_the_rate_of_a_search_make_other_groups() -> None:
    mixes = [{**result_at(BASES[ConstantRate], resolved={"mix": {"a": s, "b": 1 - s}}), "mix": []} for s in (0.5, 0.7)]
    searches = [{**result_at(SEARCH, resolved={"rate": rate}), "max_rate": {}} for rate in (90.0, 100.0)]
    assert groups(*mixes, *searches, result_at(ConstantRate(rate=100.0))) == 5


def test_a_cold_start_is_not_a_repeat_of_a_warm_run() -> None:
    warm = result_at(BASES[ConstantRate])
    assert groups(warm, {**warm, "cold_start": {}}) == 2


@pytest.mark.parametrize("field", NO_PART)
def test_measured_values_make_no_other_group(field: str) -> None:
    base = result_at(BASES[Trace], trace=REPLAYED)
    assert load_key(base) == load_key(base | {"scenario": base["scenario"] | {field: NO_PART[field]}})
    elsewhere = msgspec.structs.replace(BASES[Trace], file="other.csv", warmup=1.0)
    assert load_key(base) == load_key(result_at(elsewhere, trace=REPLAYED))


def test_a_history_has_a_series_for_each_load(tmp_path: Path) -> None:
    for number, cv in enumerate((2.0, 8.0, 2.0)):
        folder = tmp_path / str(number)
        folder.mkdir()
        result = result_at(BASES[ConstantRate], gamma_cv=cv)
        directory.write(folder, result | {"created": "2026-01-01T00:00:00+00:00"})
    found, _, unreadable = collect(tmp_path, find("p50"))
    assert (len(found), len({each.key for each in found}), unreadable) == (3, 2, [])
