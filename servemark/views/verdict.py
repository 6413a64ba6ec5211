"""A run's verdict as blocks: its badges, its meaning, and each constraint and objective with its remedy."""

from servemark.figures.registry import registry
from servemark.quantities import figure
from servemark.results.objectives import MET, MISSED
from servemark.results.schema.verdict import Constraint, JudgedObjective, Shown, VerdictOfRun
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
