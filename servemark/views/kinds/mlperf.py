"""An MLPerf run: LoadGen's verdict and figures, and this side's beside them."""

from typing import Any

from servemark.figures.registry import count_of
from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.results.schema.mlperf import MlperfResult
from servemark.results.verdict import failed_constraints, verdict_words
from servemark.views.blocks import Article, Check, Facts, Lines, Section, Table
from servemark.views.kinds.quality import score_words
from servemark.views.shape import shaped
from servemark.views.verdict import badges, judged, meaning, verdict_of
from servemark.views.wording import columns, values

_RATES = ("qps_without_loadgen_overhead", "completed_samples_per_sec", "samples_per_second")
_PERCENTILES = {"p50": "50.00", "p90": "90.00", "p95": "95.00", "p99": "99.00", "p99.9": "99.90"}


def article(saved: Saved) -> Article:
    """The verdict of both sides, and the percentiles as both saw them."""
    result = saved.of(MlperfResult)
    official, verdict = result["loadgen"], result["verdict"]
    place = ", ".join(str(result[key]) for key in ("engine", "device", "precision"))
    rates = [f"{key.replace('_', ' ')} {figure(official[key])}" for key in _RATES if key in official]
    answer = [f"MLPerf {result['scenario']}", *rates, verdict_words(failed_constraints(verdict), None)]
    scored = result["details"].get("quality")
    return shaped(
        result,
        about=f"{result['workload']} on {place}  |  MLPerf {result['scenario']}, LoadGen {official['version']}",
        answer=", ".join(answer),
        explained=[*_bound(result), *meaning(verdict)],
        sections=[
            Section("Latency", [_latencies(result), Lines(_counts(result))]),
            Section("Quality", [Lines([f"quality: {score_words(scored)}"])] if scored else []),
            Section("Verdict", [verdict_of(verdict)]),
            Section("LoadGen's own figures", lambda: [_all(official, "All of its log", folded=True)]),
            Section("What was asked for", lambda: [_all(result["plan"], "")]),
        ],
        badges=badges(verdict),
    )


def _bound(result: MlperfResult) -> list[str]:
    """Name the bound on the latency, and who set it."""
    plan = result["plan"]
    if plan.get("latency_ms") is None or result["scenario"] != "Server":
        return []
    bound = f"p{plan['percentile']:g} within {plan['latency_ms']:g} ms, {plan.get('bound_from')}"
    return [f"bound: {bound}; asked {plan['expected_qps']:,g}/s"]


def _latencies(result: MlperfResult) -> Table:
    """The percentiles as LoadGen and servemark saw them; of an accuracy run LoadGen keeps no times."""
    known = [result["loadgen"].get(f"{name}_percentile_latency_ns") for name in _PERCENTILES.values()]
    official = ["LoadGen", *(figure(ns and ns / 1e6) for ns in known)]
    ours = ["servemark", *values(result, [f"latency.{key}" for key in _PERCENTILES])]
    return Table(["ms", *_PERCENTILES], [*([official] if any(known) else []), ours])


def _counts(result: MlperfResult) -> list[str]:
    errors = result["details"]["errors"]
    answered, failed = count_of(result, "requests.answered"), count_of(result, "errors.count")
    seen = [f"{answered:,} succeeded, {failed:,} failed"]
    return [*seen, *(f"{kind}: {' | '.join(errors['messages'].get(kind, []))}" for kind in errors["by_kind"])]


def _all(found: Any, caption: str, *, folded: bool = False) -> Facts:
    rows = [
        (key.replace("_", " "), f"{each:,g}" if isinstance(each, float) else str(each)) for key, each in found.items()
    ]
    return Facts(rows, caption, folded)


def records(saved: Saved) -> list[dict[str, Any]]:
    """One row."""
    result, verdict = saved.document, saved.document["verdict"]
    row = {
        **{key: result[key] for key in ("workload", "engine", "device", "precision", "protocol")},
        "load": f"MLPerf {result['scenario']}",
        "valid": verdict["valid"],
        "failed_constraints": " ".join(failed_constraints(verdict)),
        "objective": verdict["objective"],
        **columns(result),
        **{f"loadgen_{key}": result["loadgen"].get(key) for key in ("validity", "version")},
    }
    return [row]


def checks(saved: Saved) -> list[Check]:
    """Every constraint."""
    result = saved.of(MlperfResult)
    return judged(result["verdict"], f"{result['workload']}.{result['engine']}")
