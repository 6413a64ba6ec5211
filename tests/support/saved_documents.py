"""A saved document of each kind, made up to have known figures, with what lies beside it."""

from pathlib import Path
from typing import Any

from servemark.compare.changes import RUN_LENGTH
from servemark.compare.history import Measured, series_of
from servemark.compare.saved.differences import compare_sides
from servemark.compare.saved.figures import Gate
from servemark.compare.saved.saved_runs import Run
from servemark.figures.registry import find
from servemark.profiling.measure import Order
from servemark.results import directory
from servemark.results.saved import Saved
from servemark.results.schema.comparison import History
from servemark.results.schema.details import QualityData, QualityFigure, QualityScore
from servemark.results.schema.kernels import Ceiling, KernelCase, KernelsDocument
from servemark.results.schema.run import MlperfResult, Plan, QualityResult
from servemark.results.schema.search import CandidateFigures, MaxRateSearch, NamedCandidate, RatePoint, TuningDocument
from servemark.results.schema.suite import SuiteDocument, Synthesis, not_reached
from servemark.search.points import curve
from servemark.stats.unknown import unknown_group
from tests.support import calibrated, characterised, profiled
from tests.support.documents import filled
from tests.support.measured import S, answered, evenly, load_result
from tests.support.results import histogram_of, latencies
from tests.support.rounds import document_of, rounds_of

FLAGS = ("--request-rate", "40", "--duration", "10", "--warmup", "1")
SLO = (*FLAGS, "--slo", "p90:50,errors:0.01")
STAGES = ("--stages", "5:20,5:40", "--duration", "10", "--warmup", "1")
COLD_START = ("--request-rate", "40", "--duration", "12", "--cold-start", "--slo", "cold-start:5")
MET = filled(RatePoint, rate=40.0, latency_ms=20.0, valid=True, met=True, over=1, requests=400)
MISSED = MET | {"rate": 60.0, "valid": False, "met": False, "failed": ["achieved_rate"]}
MISSED |= {"objective": "missed", "bottleneck": "server"}

NAMES = (
    "open", "closed", "stages", "cold_start", "mix", "max_rate", "alone", "series", "comparison", "saved_comparison",
    "suite", "history", "tuning", "mlperf", "kernels", "quality", "calibration", "characterisation", "suites",
    "synthesis", "profile",
)  # fmt: skip
"""Of the documents below."""


def run(folder: Path, flags: tuple[str, ...] = SLO, *, slow: float = 0.02, **changes: Any) -> Saved:
    """A run with its histograms and its request log; every 20th request takes longer, and one fails."""
    outcomes = evenly(40, 11, slow)
    outcomes[::20] = [answered(each.scheduled / S, 3 * slow) for each in outcomes[::20]]
    outcomes[99] = answered(outcomes[99].scheduled / S, slow, "http_500")
    result = load_result(flags, outcomes) | changes
    histogram = histogram_of(latencies(slow * 1e3, 2000, spread=0.4))
    kept = {f"{name}_us": histogram.encode() for name in ("latency", "service_time", "schedule_delay")}
    folder.mkdir(parents=True)
    directory.write(folder, result, kept)
    rows = (f"{o.scheduled - S},{o.sent - S},{o.done - S},{o.error or ''}\n" for o in outcomes)
    (folder / "requests.csv").write_text("scheduled_ns,sent_ns,done_ns,error\n" + "".join(rows))
    return Saved(folder.name, result, folder)


def documents(folder: Path) -> dict[str, Saved]:
    """One of each kind, and of each kind of run."""
    open_loop = run(folder / "open")
    result = open_loop.document
    header = {key: result[key] for key in ("schema_version", "created", "command", "environment")}
    tried = [{"rate": each["rate"], "runs": 1, "met": int(each["met"])} for each in (MET, MISSED)]
    found = {"points": [MET, MISSED], "rate": 50.0, "ci95": [45.0, 55.0], "bottleneck": "server"}
    found |= {"reason": "met in 1 of 1 runs", "rates": tried, "confirmed": False, "above": 60.0}
    range_of = [
        run(folder / name, (*FLAGS[:1], rate, *FLAGS[2:]), slow=slow)
        for name, rate, slow in (("1", "40", 0.02), ("2", "80", 0.08))
    ]
    runs: list[Any] = [each.document for each in range_of]
    first, second = (
        [Run("onnxruntime", result, each.histograms["latency_us"])] * 2
        for each, result in zip(range_of, runs, strict=True)
    )
    compared = compare_sides(first, second, Gate("p50", 0.05, allow_invalid=True), ("A", "B"))
    suites = characterised.side_by_side()
    return {
        "open": open_loop,
        "closed": run(folder / "closed", ("--concurrency", "4", "--duration", "10", "--warmup", "1")),
        "stages": run(folder / "stages", STAGES),
        "cold_start": run(folder / "cold_start", COLD_START),
        "mix": run(folder / "mix", mix=[{**result, "share": 1.0, "directory": "ranking"}]),
        "max_rate": run(folder / "max_rate", max_rate=found),
        "alone": Saved("alone", result),
        "series": Saved("runs", {"results": runs, "curve": curve(runs)}, None, tuple(range_of)),
        "comparison": Saved("c", document_of(rounds_of(a=1, b=2), ["a", "b"])),
        "saved_comparison": Saved("s", {**header, **compared}),
        "history": Saved("history", _history(header)),
        "suite": Saved("suite", _suite(header)),
        "tuning": Saved("tuning", _tuning(header)),
        "mlperf": Saved("mlperf", _mlperf(header, result)),
        "kernels": Saved("kernels", kernels(header)),
        "quality": Saved("quality", _quality(header, result)),
        "calibration": Saved("calibration", dict(calibrated.document())),
        "characterisation": Saved("characterisation", suites.parts[0].document),
        "suites": suites,
        "synthesis": Saved("synthesis", _synthesis(header)),
        "profile": Saved("profile", profiled.profile_of(Order("ranking", "onnxruntime", folder), ceiling())),
    }


def ceiling() -> dict[str, Any]:
    """Return the measured ceiling of a CPU, in the form of a kernel result."""
    steps = ((0.25, 101.0), (1.0, 100.0), (256.0, 10.0))
    bandwidths = [{"mib": mib, "gbps": gbps, "of": "memory"} for mib, gbps in steps]
    found = {"precision": "fp32", "tflops": 0.1, "tflops_of": "gemm m=8", "call_us": 1.0, "bandwidths": bandwidths}
    return {**found, **unknown_group(Ceiling, "a CPU's data sheet says neither")}


def kernels(header: dict[str, Any]) -> dict[str, Any]:
    """Two cases that were measured, one of them without operations; one that failed, and one that was skipped."""
    times = {"median": 0.01, "iqr": 0.001, "p5": 0.009, "p95": 0.012, "min": 0.008}
    of: dict[str, Any] = {"label": "rows=64 width=100", "sizes": {"rows": 64, "width": 100}, "precision": "fp32"}
    of |= {"library": "torch", "count": 1, "tolerance": 1e-4, "other_cpu_share": 0.02}
    work = {"flops": 32_000, "bytes": 51_200, "intensity": 0.625}
    measured = filled(
        KernelCase,
        **(of | work),
        family="softmax",
        status="measured",
        algorithm="torch.softmax",
        error=1e-7,
        ms={**times, "samples": 30, "calls_per_sample": 9},
        tflops=0.0032,
        gbps=5.12,
        compute_share=0.032,
        bandwidth_share=0.512,
        bound="memory",
        bound_share=0.512,
        joules=0.25,
        clock_mhz=3400.0,
        throttled=[],
        reason=None,
    )
    copied = {**measured, "family": "memory", "flops": 0, "intensity": 0.0, "tflops": 0.0}
    failed = filled(KernelCase, **(of | work), family="gemm", status="failed", reason="wrong: off by 1")
    skipped = filled(KernelCase, **(of | work), family="lrn", status="skipped", reason="memory: needs 9 MiB")
    return filled(
        KernelsDocument,
        **header,
        suite="quick",
        families=["softmax", "memory", "gemm", "lrn"],
        device="cpu",
        precisions=["fp32"],
        threads=2,
        busy_share=0.01,
        library="torch 2",
        libraries=["torch"],
        ceilings=[ceiling()],
        cases=[measured, copied, failed, skipped],
        planned=5,
        spent_s=1.0,
        partial=True,
    )


def _history(header: dict[str, Any]) -> dict[str, Any]:
    group = []
    for number, value in enumerate([10.0] * 12 + [13.0] * 5 + [99.0]):
        result: Any = {"folder": f"{number:02}", "created": f"2026-01-{number + 1:02}T00:00:00"}
        result |= {"commit": f"{number:x}", "dirty": False, "value": value, "valid": value < 99, "used": value < 99}
        group.append(Measured("ranking", "a machine", result))
    known = {"folder": "results", "metric": "latency.p99", "unit": "ms", "threshold": 0.05, "run_length": RUN_LENGTH}
    series = series_of(group, find("latency.p99"), threshold=0.05)
    left_out = {"missing": ["2 results: too few"], "unreadable": ["x: damaged"]}
    return filled(History, **(header | known | left_out), outcome=series["outcome"], series=[series])


def _suite(header: dict[str, Any]) -> dict[str, Any]:
    good: Any = not_reached("ranking", 1000, 0.1)
    good |= {"requests": 500, "mean_ms": 2.0, "p50_ms": 2.0, "inferences_per_s": 500.0, "busy_share": 0.01}
    good |= {"checked": 9, "max_abs_error": 1e-7, "top1_agreement": 1.0, "verdict": "VALID"}
    failed: Any = not_reached("nmt", 10**9, 100.0) | {"failure": "no memory"}
    load = {"suite": "aibench", "engine": "onnxruntime", "concurrency": 2, "duration_s": 5.0}
    return filled(SuiteDocument, **(header | load), rows=[good, failed])


def _tuning(header: dict[str, Any]) -> dict[str, Any]:
    found = filled(MaxRateSearch, rate=900.0, ci95=[880.0, 920.0], confirmed=True, reason="met in 1 of 1 runs")
    known = {"max_rate": found, "latency_ms": 12.0, "rounds_requests_per_s": [900.0, 910.0]}
    rows = [
        filled(CandidateFigures, text=f"{n} x 1 threads", screens_requests_per_s=[1000.0 * n], **known) for n in (1, 2)
    ]
    present, winner = (filled(NamedCandidate, text=row["text"], config='name: "m"\n') for row in rows)
    return filled(
        TuningDocument,
        **header,
        workload="ranking",
        engine="onnxruntime",
        device="cpu",
        precision="fp32",
        batch_size=1,
        request={"objectives": {"slo": "p99:20"}},
        budget_s=100,
        spent_s=90.0,
        reason="beyond chance",
        present=present,
        winner=winner,
        candidates=rows,
        written="config.pbtxt",
        rounds=6,
        rates_requests_per_s={"before": 900.0, "after": 1800.0},
        ratio={"value": 2.0, "ci95": [1.9, 2.1], "significant": True, "p_value": 0.03},
    )


def _quality(header: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    data = {"source": "ml-100k", "size": 943, "scored": 900, "continued": 100, "sha256": "ab" * 32}
    found = filled(
        QualityScore,
        metric="HR@10",
        higher_is_better=True,
        figures=[
            {"name": "HR@10", "value": 0.65, "ci95": [0.62, 0.68], "ci95_method": "wilson"},
            filled(QualityFigure, name="NDCG@10"),
        ],
        target=0.635,
        protocol="a protocol",
        outcome="missed",
        weights="trained",
        wrong=2,
        left_out=1,
        data=filled(QualityData, **data, samples=943),
    )
    same = {key: result[key] for key in ("workload", "engine", "device", "provider", "protocol", "request")}
    resolved = {**result["resolved"], "samples": None}
    errors = {"count": 3, "by_kind": {"timeout": 3}, "messages": {"timeout": "no answer"}}
    known = {"precision": "fp32", "resolved": resolved, "quality": found, "errors": errors, "partial": True}
    return filled(QualityResult, **(header | same | known))


def _mlperf(header: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    official = {"version": "6.0", "validity": "VALID", "99.00_percentile_latency_ns": 12_345_678}
    official |= {"completed_samples_per_sec": 123.456}
    subjects = {"latency", "requests", "errors", "outputs", "cpu"}
    figures = {tag: each for tag, each in result["figures"].items() if tag.partition(".")[0] in subjects}
    plan = {"scenario": "Server", "expected_qps": 100.0, "min_queries": 100, "latency_ms": 50.0, "percentile": 99.0}
    errors = {"by_kind": {"timeout": 1}, "messages": {"timeout": ["no answer"]}}
    same = ("workload", "engine", "device", "provider", "protocol", "verdict")
    return filled(
        MlperfResult,
        **(header | {key: result[key] for key in same}),
        precision="fp32",
        scenario="Server",
        plan=filled(Plan, **plan),
        loadgen=official,
        figures={**figures, "errors.count": {"value": 1, "unit": ""}},
        details={**{key: result["details"][key] for key in ("outputs", "cpu")}, "errors": errors},
    )


def _synthesis(header: dict[str, Any]) -> dict[str, Any]:
    def kind(name: str, share: float, features: tuple[str, ...], distance: float, operations: float) -> dict[str, Any]:
        far = {"wasserstein": distance, "kolmogorov_smirnov": distance / 2}
        totals = {"flops": (operations, 100.0), "bytes": (180.0, 200.0)}
        return {
            "kind": name,
            "layers": 8,
            "given_layers": 7.6,
            "flops_share": share,
            "distances": [{"feature": feature, **far} for feature in features],
            "totals": [{"name": total, "ours": ours, "given": given} for total, (ours, given) in totals.items()],
        }

    def candidate(name: str, distance: float, operations: float) -> dict[str, Any]:
        convolutions = kind("convolution", 0.75, ("kernel", "flops"), distance, operations)
        return {"name": name, "kinds": [convolutions, kind("recurrent", 0.25, ("steps",), 2 * distance, operations)]}

    return filled(
        Synthesis,
        **header,
        name="made",
        file="results/made.py",
        given=["googlenet", "vgg16"],
        left_out={"googlenet": 0.03, "vgg16": 0.0},
        candidates=[candidate("made", 0.1, 101.0), candidate("synnet", 0.7, 314.0)],
        contexts=[{"engine": "onnxruntime", "batch_size": 1, "predicted_ms": 12.0, "measured_ms": 15.0}],
        shares=[{"engine": "onnxruntime", "category": "convolution", "ours": 0.9, "given": 0.8}],
        held_out=[{"workload": "resnet50", "rank_correlation": 0.8}],
    )
