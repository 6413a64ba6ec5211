"""A quality run: the figures with their intervals, the data set, what failed."""

from typing import Any

from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.results.schema.details import QualityFigure, QualityScore
from servemark.results.schema.run import QualityResult
from servemark.views.blocks import Article, Badge, Check, Lines, Section, Table
from servemark.views.shape import shaped
from servemark.views.wording import low_and_high, score, served

_BADGES = {"met": Badge("TARGET MET", "good"), "missed": Badge("TARGET MISSED", "bad")}


def article(saved: Saved) -> Article:
    """The value against the target, and what it is of."""
    result = saved.of(QualityResult)
    found = result["quality"]
    badges = [_BADGES[found["outcome"]]] if found and found["outcome"] in _BADGES else []
    rows = [_cells(each) for each in found["figures"]] if found else []
    source = f" on {found['data']['source']}" if found else ""
    return shaped(
        result,
        about=f"{served(result, 'protocol')}  |  quality{source}",
        answer=against_target(found) if found else "nothing was scored",
        sections=[
            Section("Figures", [Table(("figure", "value", "95 % interval"), rows)]),
            Section("Data", [Lines(_lines(result))]),
        ],
        badges=badges,
    )


def score_words(found: QualityScore) -> str:
    """The same of a load run: with the interval, and of how many examples."""
    low, high = (score(bound) for bound in found["figures"][0]["ci95"] or (None, None))
    data = found["data"]
    scored = f"{data['scored']:,} of {data['size']:,} examples"
    return "; ".join([against_target(found), f"95 % interval {low} to {high}, {scored}", *not_numbers(found)])


def not_numbers(found: QualityScore) -> list[str]:
    """Report the number of examples whose answers hold NaN or infinity, if there are any."""
    count = found.get("not_numbers", 0)
    return [f"{count:,} answered with NaN or infinity"] if count else []


def against_target(found: QualityScore) -> str:
    """The value and its target."""
    first = found["figures"][0]
    sign = ">=" if found["higher_is_better"] else "<="
    target = "no target is published" if found["target"] is None else f"target {sign} {found['target']:g}"
    reason = f" ({found['reason']})" if found["target"] is not None and "reason" in found else ""
    return f"{first['name']} {score(first['value'])}: {target}, {found['outcome']}{reason}"


def _cells(each: QualityFigure) -> list[str]:
    """A figure's row."""
    interval, method = each["ci95"], each.get("ci95_method")
    by = f" ({method})" if method else ""  # results of earlier versions do not say
    return [
        each["name"],
        score(each["value"]),
        "-" if interval is None else f"{score(interval[0])} to {score(interval[1])}{by}",
    ]


def _lines(result: QualityResult) -> list[str]:
    """Describe the examples, their number, and the failed ones."""
    found, errors = result["quality"], result["errors"]
    if found is None:
        return []
    data = found["data"]
    subset = "" if data["subset_seed"] is None else f", a random subset by seed {data['subset_seed']}"
    continued = f", {data['continued']:,} of them by an earlier run" if data["continued"] else ""
    said = [
        f"{data['scored']:,} of {data['size']:,} examples{subset}{continued}; sha256 {data['sha256'][:12]}",
        f"weights: {found['weights']}; target of: {found['protocol']}",
    ]
    if (by := result["resolved"].get("language_model")) is not None:
        weights = f"alpha {by['alpha']:g}, beta {by['beta']:g}, {by['beam_width']:,} beams"
        said.append(f"decoded with {by['file']}, sha256 {by['sha256'][:12]}: {weights}")
    if result["partial"]:
        missing = data["samples"] - data["scored"]
        said.append(f"cut short: {missing:,} examples are missing; the same command continues")
    causes = [f"{errors['count']:,} requests failed"] * bool(errors["count"]) + not_numbers(found)
    if not causes and found["wrong"]:
        causes = ["answers could not be decoded"]
    if causes:
        said.append(f"{', '.join(causes)}: {found['wrong']:,} examples count as wrong")
        said += [f"  {kind}: {count:,} {errors['messages'].get(kind, '')}" for kind, count in errors["by_kind"].items()]
    if found["left_out"]:
        said.append(f"{found['left_out']:,} failed examples are left out: {found['metric']} has no worst value")
    return said


def records(saved: Saved) -> list[dict[str, Any]]:
    """A row for each figure."""
    result, found = saved.document, saved.document["quality"]
    return [
        {
            **{key: result[key] for key in ("workload", "engine", "device", "precision", "protocol")},
            "figure": each["name"],
            "value": each["value"],
            **low_and_high("value", each["ci95"]),
            "target": found["target"] if number == 0 else None,
            "outcome": found["outcome"] if number == 0 else None,
            "weights": found["weights"],
            "examples": found["data"]["scored"],
            "wrong_examples": found["wrong"],
            "data_sha256": found["data"]["sha256"],
        }
        for number, each in enumerate(found["figures"] if found else [])
    ]


def checks(saved: Saved) -> list[Check]:
    """The target is not missed."""
    result = saved.of(QualityResult)
    found, subject = result["quality"], f"{result['workload']}.{result['engine']}"
    if found is None:
        return [Check("quality", False, note="nothing was scored", subject=subject)]
    value = f"{figure(found['figures'][0]['value'])} (target {figure(found['target'])})"
    if reason := found.get("reason"):
        return [Check(found["metric"], None, note=reason, subject=subject)]
    missed = found["outcome"] == "missed"
    return [Check(found["metric"], not missed, value=value, note="the target is missed", subject=subject)]
