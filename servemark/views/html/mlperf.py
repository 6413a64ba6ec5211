"""An MLPerf run as a page: LoadGen's verdict and figures, and this side's beside them."""

from servemark.results.saved import Saved
from servemark.results.schema.header import figure_of
from servemark.results.schema.mlperf import MlperfResult
from servemark.results.schema.score import QualityScore
from servemark.views.html.load import badges, constraints
from servemark.views.page.blocks import Article, Block, Facts, Lines, Section, Table
from servemark.views.plots.circumstances import environment, made
from servemark.views.quality import score_words
from servemark.views.wording import figure

_RATES = ("qps_without_loadgen_overhead", "completed_samples_per_sec", "samples_per_second")
_PERCENTILES = {"p50": "50.00", "p90": "90.00", "p95": "95.00", "p99": "99.00", "p99_9": "99.90"}


def article(saved: Saved) -> Article:
    """The verdict of both sides, and the percentiles as both saw them."""
    result = saved.of(MlperfResult)
    official = result["loadgen"]
    place = ", ".join(str(result[key]) for key in ("engine", "device", "precision"))
    return Article(
        about=f"{result['workload']} on {place}, MLPerf {result['scenario']}, LoadGen {official['version']}",
        answer=_answer(result),
        sections=[
            Section("Verdict", [constraints(result["verdict"])]),
            Section("Quality", [Lines([score_words(scored)])] if (scored := _scored(result)) else []),
            Section("Latency", _latency(result)),
            Section(
                "LoadGen's own figures",
                [
                    Facts(
                        [(key.replace("_", " "), str(value)) for key, value in official.items()],
                        "All of its log",
                        folded=True,
                    )
                ],
            ),
            Section("What was asked for", [Facts([(key, str(value)) for key, value in result["plan"].items()])]),
            Section("Environment", environment(result)),
        ],
        badges=badges(result["verdict"], partial=result["partial"]),
        made=made(result),
    )


def _scored(result: MlperfResult) -> QualityScore | None:
    """Of an accuracy run."""
    return result["metrics"].get("correctness", {}).get("quality")


def _answer(result: MlperfResult) -> str:
    official = result["loadgen"]
    rates = [f"{key.replace('_', ' ')} {official[key]:.5g}" for key in _RATES if key in official]
    failed = [each["name"] for each in result["verdict"]["constraints"] if not each["ok"]]
    valid = f"INVALID ({', '.join(failed)})" if failed else "VALID"
    return ", ".join([f"MLPerf {result['scenario']}", *rates, valid])


def _latency(result: MlperfResult) -> list[Block]:
    ours, official = result["metrics"]["latency_ms"], result["loadgen"]
    rows = []
    for key, name in _PERCENTILES.items():
        ns = official.get(f"{name}_percentile_latency_ns")
        rows.append([key.replace("_", "."), figure(ns and ns / 1e6), figure(figure_of(ours, key))])
    errors = result["metrics"]["errors"]
    seen = [f"{ours['count']:,} succeeded, {errors['count']:,} failed"]
    seen += [f"{kind}: {errors['messages'].get(kind, '')}" for kind in errors["by_kind"]]
    return [Table(["", "LoadGen ms", "servemark ms"], rows), Lines(seen)]
