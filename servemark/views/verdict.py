"""A run's verdict: its answer in one line, badges, meaning, and each constraint and objective with its remedy."""

from servemark.documents.saved_load import asked_and_answered
from servemark.figures.registry import count_of, interval_of, registry, value_of
from servemark.quantities import figure, interval_words, text_of
from servemark.results.objectives import ERRORS, MET, MISSED, THROUGHPUT
from servemark.results.schema.details import Constraint, JudgedObjective, Shown, VerdictOfRun
from servemark.results.schema.run import Result
from servemark.results.verdict import failed_constraints, verdict_words
from servemark.stats.percentiles import samples_needed
from servemark.views.blocks import Badge, Check, Checks, Routine

_ANSWERS = {
    "met": Routine("MET: every objective was kept."),
    "missed": Routine("MISSED: an objective was not kept."),
    "undecided": Routine("UNDECIDED: too few requests to tell whether the objective was kept."),
}


def badges(verdict: VerdictOfRun) -> list[Badge]:
    """VALID or INVALID, and MET, MISSED or UNDECIDED."""
    found = [validity(verdict["valid"])]
    if objective := verdict["objective"]:
        found.append(Badge(objective.upper(), {MET: "good", MISSED: "bad"}.get(objective, "open")))
    return found


def validity(valid: bool) -> Badge:
    """VALID or INVALID."""
    return Badge("VALID", "good") if valid else Badge("INVALID", "bad")


def meaning(verdict: VerdictOfRun) -> list[str]:
    """Explain the verdict to a reader of a page; a terminal shows the constraints right below."""
    failed = [each["name"] for each in verdict["constraints"] if not each["ok"]]
    judged = len(verdict["constraints"])
    first = f"VALID: the figures can be quoted. All {judged} constraints hold."
    if failed:
        hold = "do not hold" if len(failed) > 1 else "does not hold"
        first = f"INVALID: the figures cannot be quoted, because {len(failed)} of {judged} constraints {hold}: "
        first += f"{', '.join(failed)}. The table of the verdict says what to do."
    return [Routine(first), *([_ANSWERS[verdict["objective"]]] if verdict["objective"] else [])]


def verdict_of(verdict: VerdictOfRun) -> Checks:
    """All that was judged, below the verdict."""
    objective = f"; objective {verdict['objective'].upper()}" if verdict["objective"] else ""
    return Checks(judged(verdict), f"{'VALID' if verdict['valid'] else 'INVALID'}{objective}")


def judged(verdict: VerdictOfRun, subject: str = "") -> list[Check]:
    """The constraints, the objectives, and what was not judged."""
    found = [_constraint(each, subject) for each in verdict["constraints"]]
    found += [_objective(each, subject) for each in verdict.get("objectives", [])]
    skipped = verdict.get("skipped", {})
    return [*found, *(Check(name, None, note=why, subject=subject, kind="constraint") for name, why in skipped.items())]


def _constraint(each: Constraint, subject: str) -> Check:
    value, limit, ok = each["value"], each["limit"], each["ok"]
    shown, most = "-", "-"
    if value is not None and limit is not None:
        # 1.104 beside a limit of 1.10 must not look like it.
        shown = f"{value:.6g}" if not ok and figure(value) == figure(limit) else figure(value)
        most = figure(limit)
    note = "" if ok else each["remedy"]
    return Check(each["name"], ok, "Yes" if ok else "No", shown, most, each["unit"], note, "", subject, "constraint")


def _objective(each: JudgedObjective, subject: str) -> Check:
    met = each["status"] == MET
    figure_of = registry().get(each["figure"])
    least = "at least " if figure_of is not None and figure_of.better == "higher" else ""
    return Check(
        each["objective"],
        met,
        each["status"].upper(),
        figure(each["value"]),
        f"{least}{figure(each['limit'])}",
        each["unit"],
        "" if met else each["remedy"],
        confidence(each["shown"]) if each["shown"] and each["status"] != "undecided" else "",
        subject,
        "objective",
    )


def confidence(shown: Shown) -> str:
    """Say whether the objective is shown and, if that is not known, why and how long a run would tell."""
    text = f"kept with {shown['confidence']:.0%} confidence: "
    over = f"{shown['over']:,} of {shown['requests']:,} requests over or failed"
    if shown["holds"] is not None:
        return f"{text}{'yes' if shown['holds'] else 'not shown'} ({over})"
    known = [over, shown["holds_reason"], *([shown["remedy"]] if "remedy" in shown else [])]
    return f"{text}not known ({'; '.join(known)})"


_TAILS = ("p99", "p95", "p90", "p50")


def answer(result: Result) -> str:
    """Summarise a load result: the engine, its speed, and both answers of the verdict.

    Like "asked 1,200/s, scheduled 1,206/s, all answered, goodput 1,205/s: p99 4.80 ms (95 % interval 4.70 to 4.95),
    objective 20 ms met, VALID".
    """
    failed = failed_constraints(result["verdict"])
    load = asked_and_answered(result) or f"{figure(value_of(result, 'throughput.requests'))} requests/s"
    if result["batch_size"] > 1:
        load += f", {figure(value_of(result, 'throughput.inferences'))} inferences/s"
    if any(each["figure"] == "latency" for each in result["verdict"]["objectives"]):
        load += f", goodput {figure(value_of(result, 'throughput.goodput'))}/s"
    return f"{load}: {', '.join([*_figures(result), verdict_words(failed, None)])}"


def _figures(result: Result) -> list[str]:
    """The latency, at the objective's percentile where there is one, and each objective's answer."""
    objectives = result["verdict"]["objectives"]
    if "mix" in result:
        said = result["verdict"]["objective"]
        return [_latency(result, None), *([f"objectives {said}"] if said else [])]
    timed = [each for each in objectives if each["figure"] == "latency"]
    first = max(timed, key=lambda each: each["percentile"] or 0.0, default=None)
    asked = [f"objective {figure(first['limit'])} ms {first['status']}"] if first else []
    return [_latency(result, first), *asked, *(_asked(each) for each in objectives if each is not first)]


def _latency(result: Result, objective: JudgedObjective | None) -> str:
    """Format the objective's percentile or, without one, the highest that the requests support."""
    answered, errors = count_of(result, "requests.answered"), count_of(result, "errors.count")
    requests = answered + errors
    if not answered:
        return "no request succeeded"
    if objective is None:
        key = next((key for key in _TAILS if value_of(result, f"latency.{key}") is not None), "max")
        value = value_of(result, f"latency.{key}")
    else:
        percentile = objective["percentile"] or 0.0
        key, value = f"p{text_of(percentile)}", objective["value"]
        if objective["status"] == "undecided":
            needed = samples_needed(percentile)  # a percentile that late sending moved has them
            return f"{key} not known" + (f" from {requests:,} of {needed:,} requests" if requests < needed else "")
        judged = objective["shown"]
        if objective["status"] == "missed" and judged and requests < samples_needed(percentile):
            # Too few for the percentile, which the table leaves out as well; enough to be sure that it is over.
            over = f"{judged['over']:,} of {judged['requests']:,} requests"
            return f"{key} over {figure(objective['limit'])} ms ({over})"
    interval = interval_of(result, f"latency.{key}")
    within = f" (95 % interval {interval_words(interval)})" if interval else ""
    if value is not None:
        return f"{key} {figure(value)} ms{within}"
    return f"{key} beyond every answer ({errors:,} failed){within}" if errors else f"{key} not known{within}"


def _asked(objective: JudgedObjective) -> str:
    """Another objective: its figure, its limit and its answer."""
    name, limit = objective["objective"].rpartition(":")[0], objective["limit"]
    if objective["figure"] == ERRORS:
        return f"errors {_percent(objective['value'])}, objective {_percent(limit)} {objective['status']}"
    if objective["figure"] == THROUGHPUT:
        return f"objective {figure(limit)} requests/s {objective['status']}"
    unit = objective["unit"]
    seen = "not known" if objective["value"] is None else f"{figure(objective['value'])} {unit}"
    return f"{name} {seen}, objective {figure(limit)} {unit} {objective['status']}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.3g} %"
