"""A calibration: each load generator's errors, side by side, and in each case."""

from collections.abc import Iterator
from typing import Any

from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.results.schema.calibration import Calibration
from servemark.results.schema.header import reason_of
from servemark.views.blocks import Article, Check, Facts, Lines, Section, Table
from servemark.views.shape import shaped


def article(saved: Saved) -> Article:
    """The verdict over servemark, then each load generator, then each case."""
    document = saved.of(Calibration)
    judged = document["verdict"]
    answer = (
        f"servemark is {judged['outcome']} on this machine: {judged['words']}" if judged else "nothing was measured"
    )
    wrong = [f"{meter['name']}: {'; '.join(meter['wrong'])}" for meter in document["meters"] if meter["wrong"]]
    found = [(row["case"], reason_of(row, "reported_ms")) for row in document["rows"]]
    without = [f"{case}: {reason}" for case, reason in found if reason]
    rounds = f"{document['rounds']} rounds" if document["rounds"] > 1 else "1 round"
    return shaped(
        document,
        about=f"{len(document['cases'])} cases, {len(document['meters'])} load generators, {rounds}  |  calibration",
        answer=answer,
        sections=[
            Section("Load generators", [_meters(document), Lines(wrong)], titled=True),
            Section("Errors: reported less true (ms)", [_errors(document)], titled=True),
            Section("Arrivals beside their schedule", [_arrivals(document)], titled=True),
            Section("Without figures", [Lines(without)], titled=True),
            Section("How well the truth is known", [Facts([*_golden(document)])], titled=True),
        ],
        outcome=judged["outcome"] if judged else "",
    )


def _meters(document: Calibration) -> Table:
    limit = f"{document['verdict']['limit_share']:.0%}" if document["verdict"] else "a share"
    head = ["generator", f"right within (ms + {limit})", "worst at", "floor (ms)", "digit (ms)", "ceiling (/s)"]
    rows = [
        [
            meter["name"],
            figure(meter["within_ms"]),
            meter["worst"] or "-",
            figure(meter["floor_ms"]),
            figure(meter["step_ms"]),
            f"{'at least ' * bool(meter['server_bound'])}{figure(meter['ceiling_per_s'])}",
            "-" if meter["failures_share"] is None else f"{meter['failures_share']:.2f}",
            "yes" if meter["trusted"] else "no",
        ]
        for meter in document["meters"]
    ]
    marked = [number for number, meter in enumerate(document["meters"]) if not meter["trusted"]]
    return Table([*head, "failures reported / true", "trusted"], rows, marked=marked)


def _errors(document: Calibration) -> Table:
    """A row for each percentile of a case, a column for each load generator; the truth is that of the first."""
    names, rows = [meter["name"] for meter in document["meters"]], []
    for case in document["cases"]:
        mine = {row["meter"]: row for row in document["rows"] if row["case"] == case["name"] and row["reported_ms"]}
        for key in next(iter(mine.values()))["true_ms"] if mine else ():
            errors = [mine[name]["error_ms"][key] if name in mine else None for name in names]
            found = ["-" if error is None else f"{'+' * (error >= 0)}{figure(error)}" for error in errors]
            true = figure(next(iter(mine.values()))["true_ms"][key])
            rows.append([f"{case['title']}, {key}", figure(case["theory_ms"].get(key)), true, *found])
    return Table(["case", "theory", "truth", *names], rows)


def _arrivals(document: Calibration) -> Table:
    seen = [(row, row["arrivals"]) for row in document["rows"] if row["arrivals"]]
    rows = [
        [
            row["case"],
            row["meter"],
            figure(found["rate"]),
            *map(figure, (found["offset_p50_ms"], found["offset_p99_ms"], found["ks_distance"], found["ks_p"])),
        ]
        for row, found in seen
    ]
    return Table(["case", "generator", "came (/s)", "off p50 (ms)", "off p99 (ms)", "KS distance", "KS p"], rows)


def _golden(document: Calibration) -> Iterator[tuple[str, str]]:
    golden = document["golden"]
    yield "Golden server", "before ordinary work (real time)" if golden["realtime"] else "among ordinary work"
    yield "Cores", "kept awake" if golden["cores_awake"] else "idle as ever"
    if golden["other_cpu_share"] is not None:
        yield "Other work", f"{golden['other_cpu_share']:.0%} of the cores"
    yield "Answers written late, p99 of a case, median", f"{figure(golden['late_p50_ms'])} ms"
    beyond = f"{figure(golden['unseen_p50_ms'])} ms at p50, {figure(golden['unseen_p99_ms'])} ms at p99"
    yield "Beyond the log, by a client that only sends and waits", beyond


def records(saved: Saved) -> list[dict[str, Any]]:
    """A row for each load generator in each case."""
    groups = {f"{name}_ms": f"{name}_%s_ms" for name in ("reported", "true", "error")} | {"arrivals": "arrivals_%s"}
    return [
        {
            **{key: value for key, value in row.items() if key not in groups},
            **{name % key: value for group, name in groups.items() for key, value in (row.get(group) or {}).items()},
        }
        for row in saved.document["rows"]
    ]


def checks(saved: Saved) -> list[Check]:
    """Return the verdict over servemark; it is not judged where the machine was too unquiet."""
    judged = saved.of(Calibration)["verdict"]
    if judged is None or judged["outcome"] == "undecided":
        return [Check("trusted", None, "-", note=judged["words"] if judged else "nothing was judged")]
    right = judged["outcome"] == "trusted"
    return [Check("trusted", right, "Yes" if right else "No", note=judged["words"])]
