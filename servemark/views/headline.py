"""A run's answer in one line, for whoever reads no further."""

from servemark.documents.saved_load import asked_and_answered
from servemark.figures.registry import count_of, interval_of, value_of
from servemark.quantities import figure, interval_words, text_of
from servemark.results.objectives import ERRORS, THROUGHPUT
from servemark.results.schema.run import Result
from servemark.results.schema.verdict import JudgedObjective
from servemark.results.verdict import failed_constraints, verdict_words
from servemark.stats.percentiles import samples_needed
from servemark.views.wording import among_failed

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
            return f"{key} not known from {requests:,} of {samples_needed(percentile):,} requests"
        judged = objective["shown"]
        if objective["status"] == "missed" and judged and requests < samples_needed(percentile):
            # Too few for the percentile, which the table leaves out as well; enough to be sure that it is over.
            over = f"{judged['over']:,} of {judged['requests']:,} requests"
            return f"{key} over {figure(objective['limit'])} ms ({over})"
    interval = interval_of(result, f"latency.{key}")
    within = f" (95 % interval {interval_words(interval)})" if interval else ""
    shown = f"{figure(value)} ms" if value is not None else among_failed(errors)
    return f"{key} {shown}{within}"


def _asked(objective: JudgedObjective) -> str:
    """Another objective: its figure, its limit and its answer."""
    name, limit = objective["objective"].rpartition(":")[0].replace("_", " "), objective["limit"]
    if objective["figure"] == ERRORS:
        return f"errors {_percent(objective['value'])}, objective {_percent(limit)} {objective['status']}"
    if objective["figure"] == THROUGHPUT:
        return f"objective {figure(limit)} requests/s {objective['status']}"
    unit = objective["unit"]
    seen = "not known" if objective["value"] is None else f"{figure(objective['value'])} {unit}"
    return f"{name} {seen}, objective {figure(limit)} {unit} {objective['status']}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.3g} %"
