"""A saved document of each kind, made up to have known figures, with what lies beside it."""

from pathlib import Path
from typing import Any

from servemark.compare.changes import RUN_LENGTH
from servemark.compare.history import Measured, series_of
from servemark.compare.saved.differences import Gate, compare_sides
from servemark.compare.saved.saved_runs import Run
from servemark.figures.registry import find
from servemark.profiling.measure import Order
from servemark.results import directory
from servemark.results.saved import Saved
from servemark.results.schema.kernels import Ceiling
from servemark.results.schema.suite import not_reached
from servemark.search.points import curve
from servemark.stats.unknown import unknown_group
from tests.support import calibrated, characterised, profiled
from tests.support.measured import S, answered, evenly, load_result
from tests.support.results import histogram_of, latencies
from tests.support.rounds import document_of, rounds_of

FLAGS = ("--request-rate", "40", "--duration", "10", "--warmup", "1")
SLO = (*FLAGS, "--slo", "p90:50,errors:0.01")
STAGES = ("--stages", "5:20,5:40", "--duration", "10", "--warmup", "1")
COLD_START = ("--request-rate", "40", "--duration", "12", "--cold-start", "--slo", "cold-start:5")
POINT: dict[str, Any] = {
    "rate": 40.0,
    "latency_ms": 20.0,
    "valid": True,
    "failed": [],
    "objective": "met",
    "met": True,
    "bottleneck": None,
    "over": 1,
    "requests": 400,
    "directory": None,
}

NAMES = (
    "open",
    "closed",
    "stages",
    "cold_start",
    "mix",
    "max_rate",
    "alone",
    "series",
    "comparison",
    "saved_comparison",
    "suite",
    "history",
    "tuning",
    "mlperf",
    "kernels",
    "quality",
    "calibration",
    "characterisation",
    "suites",
    "synthesis",
    "profile",
)
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
    missed: dict[str, Any] = {
        **POINT,
        "rate": 60.0,
        "valid": False,
        "met": False,
        "failed": ["achieved_rate"],
        "objective": "missed",
        "bottleneck": "server",
    }
    found: dict[str, Any] = {"points": [POINT, missed], "rate": 50.0, "ci95": [45.0, 55.0], "bottleneck": "server"}
    tried = [{"rate": each["rate"], "runs": 1, "met": int(each["met"])} for each in (POINT, missed)]
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
        "characterisation": Saved("characterisation", dict(characterised.document())),
        "suites": characterised.side_by_side(),
        "synthesis": Saved("synthesis", _synthesis(header)),
        "profile": Saved("profile", profiled.profile_of(Order("ranking", "onnxruntime", folder), ceiling())),
    }


def ceiling() -> dict[str, Any]:
    """Return the measured ceiling of a CPU, in the form of a kernel result."""
    steps = ((0.25, 101.0), (1.0, 100.0), (256.0, 10.0))
    return {
        "precision": "fp32",
        "tflops": 0.1,
        "tflops_of": "gemm m=8",
        "call_us": 1.0,
        "bandwidths": [{"mib": mib, "gbps": gbps, "of": "memory"} for mib, gbps in steps],
        **unknown_group(Ceiling, "a CPU's data sheet says neither"),
    }


def kernels(header: dict[str, Any]) -> dict[str, Any]:
    """Two cases that were measured, one of them without operations; one that failed, and one that was skipped."""
    times = {
        "median": 0.01,
        "iqr": 0.001,
        "p5": 0.009,
        "p95": 0.012,
        "min": 0.008,
        "samples": 30,
        "calls_per_sample": 9,
    }
    measured = {
        "family": "softmax",
        "label": "rows=64 width=100",
        "sizes": {"rows": 64, "width": 100},
        "precision": "fp32",
        "library": "torch",
        "source": "servemark",
        "count": 1,
        "status": "measured",
        "flops": 32_000,
        "bytes": 51_200,
        "intensity": 0.625,
        "algorithm": "torch.softmax",
        "error": 1e-7,
        "tolerance": 1e-4,
        "ms": times,
        "tflops": 0.0032,
        "gbps": 5.12,
        "compute_share": 0.032,
        "bandwidth_share": 0.512,
        "bound": "memory",
        "bound_share": 0.512,
        "joules": 0.25,
        "clock_mhz": 3400.0,
        "throttled": [],
        "other_cpu_share": 0.02,
        "published": [],
        "figures": {},
        "reason": None,
    }
    lacks = dict.fromkeys(("error", "ms", "tflops", "gbps", "compute_share", "bandwidth_share", "bound", "bound_share"))
    lacks |= dict.fromkeys(("joules", "clock_mhz", "throttled"))
    copied = {**measured, "family": "memory", "flops": 0, "intensity": 0.0, "tflops": 0.0}
    failed = {**measured, **lacks, "family": "gemm", "status": "failed", "reason": "wrong: off by 1"}
    skipped = {**measured, **lacks, "family": "lrn", "status": "skipped", "reason": "memory: needs 9 MiB"}
    return {
        **header,
        "kind": "kernels",
        "suite": "quick",
        "traced": None,
        "families": ["softmax", "memory", "gemm", "lrn"],
        "device": "cpu",
        "precisions": ["fp32"],
        "cache": "hot",
        "threads": 2,
        "busy_share": 0.01,
        "cache_mib": 32.0,
        "case_limit_s": 60.0,
        "library": "torch 2",
        "libraries": ["torch"],
        "published": False,
        "ceilings": [ceiling()],
        "cases": [measured, copied, failed, skipped],
        "planned": 5,
        "spent_s": 1.0,
        "partial": True,
    }


def _history(header: dict[str, Any]) -> dict[str, Any]:
    values = [10.0] * 12 + [13.0] * 5 + [99.0]
    group = [
        Measured(
            "ranking",
            "a machine",
            {
                "folder": f"{n:02}",
                "created": f"2026-01-{n + 1:02}T00:00:00",
                "commit": f"{n:x}",
                "dirty": False,
                "value": value,
                "valid": value < 99,
                "used": value < 99,
            },
        )
        for n, value in enumerate(values)
    ]
    known = {"folder": "results", "metric": "latency.p99", "unit": "ms", "higher_is_worse": True, "threshold": 0.05}
    series = series_of(group, find("latency.p99"), threshold=0.05)
    left_out = {"missing": ["2 results: too few"], "unreadable": ["x: damaged"]}
    more = {"run_length": RUN_LENGTH, "outcome": series["outcome"], "series": [series]}
    return {**header, "kind": "history", **known, **more, **left_out}


def _suite(header: dict[str, Any]) -> dict[str, Any]:
    good: Any = not_reached("ranking", 1000, 0.1)
    good |= {
        "requests": 500,
        "mean_ms": 2.0,
        "p50_ms": 2.0,
        "inferences_per_s": 500.0,
        "checked": 9,
        "verdict": "VALID",
    }
    good |= {"max_abs_error": 1e-7, "top1_agreement": 1.0, "busy_share": 0.01}
    failed: Any = not_reached("nmt", 10**9, 100.0) | {"failure": "no memory"}
    load = {"suite": "aibench", "engine": "onnxruntime", "concurrency": 2, "duration_s": 5.0, "warmup_s": 1.0}
    return {**header, "kind": "suite", **load, "published": False, "rows": [good, failed], "partial": False}


def _tuning(header: dict[str, Any]) -> dict[str, Any]:
    settings = {"instances": 1, "threads": 1, "max_batch": 128, "queue_delay_us": 0}
    known = {"failure": None, "latency_ms": 12.0, "generator_limited": [], "rounds_requests_per_s": [900.0, 910.0]}
    found = {"rate": 900.0, "ci95": [880.0, 920.0], "confirmed": True, "above": None, "bottleneck": "server"}
    found |= {"reason": "met in 1 of 1 runs", "rates": [], "points": []}
    rows = [
        {
            "text": f"{n} x 1 threads",
            "candidate": settings,
            "screens_requests_per_s": [1000.0 * n],
            "max_rate": found,
            **known,
        }
        for n in (1, 2)
    ]
    named = [{"candidate": settings, "text": row["text"], "config": 'name: "m"\n'} for row in rows]
    return {
        **header,
        "kind": "tuning",
        "workload": "ranking",
        "engine": "onnxruntime",
        "device": "cpu",
        "precision": "fp32",
        "batch_size": 1,
        "request": {"objectives": {"slo": "p99:20"}},
        "budget_s": 100,
        "spent_s": 90.0,
        "outcome": "better",
        "reason": "beyond chance",
        "present": named[0],
        "winner": named[1],
        "candidates": rows,
        "not_tried": [],
        "written": "config.pbtxt",
        "rounds": 6,
        "rates_requests_per_s": {"before": 900.0, "after": 1800.0},
        "ratio": {"value": 2.0, "ci95": [1.9, 2.1], "significant": True, "p_value": 0.03},
        "seed": 0,
        "screens": {"warmed_s": 1.0, "warmup_s": 0.5, "duration_s": 2.0},
        "space": {"present": settings, "layouts": [], "batches": [128], "delays_us": [0]},
        "lacked": None,
        "partial": False,
    }


def _quality(header: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    data = {"source": "ml-100k", "size": 943, "samples": 943, "subset_seed": None, "scored": 900, "continued": 100}
    found = {
        "metric": "HR@10",
        "higher_is_better": True,
        "figures": [
            {"name": "HR@10", "value": 0.65, "ci95": [0.62, 0.68], "ci95_method": "wilson"},
            {"name": "NDCG@10", "value": None, "ci95": None, "ci95_method": None},
        ],
        "target": 0.635,
        "protocol": "a protocol",
        "outcome": "missed",
        "weights": "trained",
        "wrong": 2,
        "left_out": 1,
        "data": {**data, "sha256": "ab" * 32},
    }
    return {
        **header,
        "kind": "quality",
        **{key: result[key] for key in ("workload", "engine", "device", "provider", "protocol")},
        "precision": "fp32",
        "request": result["request"],
        "resolved": {**result["resolved"], "samples": None},
        "artifact_sha256": None,
        "quality": found,
        "errors": {"count": 3, "by_kind": {"timeout": 3}, "messages": {"timeout": "no answer"}},
        "seconds": 1.5,
        "partial": True,
    }


def _mlperf(header: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    official = {
        "version": "6.0",
        "validity": "VALID",
        "99.00_percentile_latency_ns": 12_345_678,
        "completed_samples_per_sec": 123.456,
    }
    subjects = {"latency", "requests", "errors", "outputs", "cpu"}
    figures = {tag: each for tag, each in result["figures"].items() if tag.partition(".")[0] in subjects}
    plan = {"scenario": "Server", "expected_qps": 100.0, "expected_latency_ms": 1.0, "min_duration_s": 10.0}
    plan |= {"min_queries": 100, "latency_ms": 50.0, "percentile": 99.0, "seed": 0}
    errors = {"by_kind": {"timeout": 1}, "messages": {"timeout": ["no answer"]}}
    return {
        **header,
        "kind": "mlperf",
        **{key: result[key] for key in ("workload", "engine", "device", "provider", "protocol", "partial")},
        "precision": "fp32",
        "request": {},
        "resolved": {"url": None, "model": "ranking_onnxruntime", "windows": 10},
        "scenario": "Server",
        "plan": plan,
        "loadgen": official,
        "figures": {**figures, "errors.count": {"value": 1, "unit": ""}},
        "details": {**{key: result["details"][key] for key in ("outputs", "cpu")}, "errors": errors},
        "verdict": result["verdict"],
    }


def _synthesis(header: dict[str, Any]) -> dict[str, Any]:
    def kind(name: str, share: float, features: tuple[str, ...], distance: float, operations: float) -> dict[str, Any]:
        return {
            "kind": name,
            "layers": 8,
            "given_layers": 7.6,
            "flops_share": share,
            "distances": [
                {"feature": feature, "wasserstein": distance, "kolmogorov_smirnov": distance / 2}
                for feature in features
            ],
            "totals": [
                {"name": "flops", "ours": operations, "given": 100.0},
                {"name": "bytes", "ours": 180.0, "given": 200.0},
            ],
        }

    def candidate(name: str, distance: float, operations: float) -> dict[str, Any]:
        convolutions = kind("convolution", 0.75, ("kernel", "flops"), distance, operations)
        return {"name": name, "kinds": [convolutions, kind("recurrent", 0.25, ("steps",), 2 * distance, operations)]}

    context = {"engine": "onnxruntime", "batch_size": 1, "predicted_ms": 12.0, "measured_ms": 15.0}
    return {
        **header,
        "kind": "synthesis",
        "name": "made",
        "file": "results/made.py",
        "given": ["googlenet", "vgg16"],
        "left_out": {"googlenet": 0.03, "vgg16": 0.0},
        "seed": 0,
        "search_s": 14.0,
        "candidates": [candidate("made", 0.1, 101.0), candidate("synnet", 0.7, 314.0)],
        "contexts": [context],
        "shares": [{"engine": "onnxruntime", "category": "convolution", "ours": 0.9, "given": 0.8}],
        "held_out": [{"workload": "resnet50", "rank_correlation": 0.8}],
    }
