"""Documents with what few others have: reduced precision, a warm-up that never ended, no figure at all."""

import copy
from pathlib import Path
from typing import Any

from loadgen.load.load_config import Startup
from loadgen.load.warm_up import WarmUpOutcome
from servemark.results import directory
from servemark.results.saved import Saved
from tests.support.measured import answered, evenly, load_result, worker_figures

OPEN = ("--request-rate", "40", "--duration", "10", "--warmup", "1", "--request-distribution", "constant")
CLOSED = ("--concurrency", "2", "--duration", "10", "--warmup", "1")
COLD = ("--request-rate", "40", "--duration", "12", "--cold-start", "--slo", "cold-start:5")
WARM = (*OPEN[:4], "--warmup", "auto")
RICH, AT_ITS_LIMIT = "prolonged, by workers, with joules", "a figure at its limit"
BY_COSINE, BY_MATCHES = "comparison: reduced, by cosine", "comparison: reduced, by matches"
PAGES = {RICH, AT_ITS_LIMIT, BY_COSINE, BY_MATCHES}
"""Those whose pages differ, too."""
GOOD = evenly(40, 11, 0.02, first_s=1)


OBJECTIVES = (
    "",
    "--slo p90:50",
    "--slo p90:5",
    "--slo p92:50",
    "--slo p99.9:50",
    "--slo p99:5",
    "--slo p50:5,p90:50ms --slo service_p90:10,errors:1% --slo throughput:30",
    "--slo recovery:5s --at 5:true",
    "--slo energy.per_inference:0.5",
    "--batch-size 2",
)
"""Flags of runs whose first lines differ."""


def headlines() -> dict[str, Any]:
    """Runs by what was asked of them; of the last each request failed."""
    found = {flags: load_result((*OPEN, *flags.split()), GOOD) for flags in OBJECTIVES}
    late = load_result((*OPEN, "--slo", "p90:50"), GOOD)
    late["verdict"]["objectives"][0] |= {"status": "undecided", "value": None}
    broken = [answered(1 + n / 40, 0.1, "http_500") for n in range(400)]
    return {
        **found,
        "sent late": late,
        "all fail": load_result((*OPEN, "--slo", "p90:50"), broken),
        "a mix": {**found["--slo p90:50"], "mix": []},
    }


def _figures(subject: str, **values: float | None) -> dict[str, Any]:
    return {f"{subject}.{name}": {"value": value, "unit": ""} for name, value in values.items()}


def _outputs(tolerance: dict[str, float], precision: str = "int8", **values: float | None) -> Any:
    """A run whose answers were checked."""
    found = load_result(OPEN, GOOD)
    usual = {"checked": 50, "max_abs_error": 1.5e-6, "cosine_min": 0.999, "top1_agreement": 0.98}
    found["figures"] |= _figures("outputs", **usual | {"samples": 16, "top1_samples": 15} | values)
    found["details"]["outputs"] = {"tolerance": tolerance, "weights": "random"} if tolerance else {}
    return found | {"precision": precision}


def _runs() -> dict[str, Any]:
    """Results of load runs."""
    clocks = (("a", 0.2), ("b", 0.4), ("a", 0.1))
    workers = [worker_figures(n, host=host, clock_ms=clock) for n, (host, clock) in enumerate(clocks)]
    rich = load_result(CLOSED, GOOD, workers=workers, measured_s=16.25)
    spent = {"queue": 1.5, "compute_input": 0.25, "compute_infer": 12.0, "compute_output": 0.125, "batch_size": 3.5}
    rich["figures"] |= _figures("server", **spent) | _figures("energy", per_inference=0.01234)
    rich["details"]["energy"]["boundary"] = "cpu_package"
    rich["bottleneck"] = {"by": "server", "evidence": "queue 80 ms of 100 ms service time"}
    unknown = load_result(OPEN, GOOD) | {"bottleneck": {"by": None, "evidence": "not known: no request succeeded"}}
    at_limit = load_result(OPEN, GOOD)
    steady = next(each for each in at_limit["verdict"]["constraints"] if each["name"] == "steady_state")
    steady |= {"ok": False, "value": 1.10004, "limit": 1.1}
    slow = [*evenly(40, 2, 0.3), *evenly(40, 12, 0.02, first_s=2)]
    sent = evenly(40, 20, 0.02, first_s=10)
    alike = _outputs({"atol": 1e-4, "rtol": 1e-3}, "fp32", max_abs_error=1e-7, cosine_min=1.0, top1_agreement=1.0)
    differs = {"name": "output_agreement", "ok": False, "value": 50, "limit": 1, "unit": "", "remedy": "'Y' is off"}
    quiet = load_result(OPEN, [], measured_s=0.0, interrupted="stopped")
    whole = load_result(OPEN, GOOD)
    return {
        "a failure among answers": load_result((*OPEN, "--slo", "p90:50"), [*GOOD, answered(5, 0.1, "http_500")]),
        "cut short": load_result((*CLOSED, "--slo", "p90:15"), GOOD[:30], interrupted="stopped", measured_s=9.5),
        RICH: rich,
        "not known what limited it": unknown,
        AT_ITS_LIMIT: at_limit,
        "a cold start": load_result(COLD, slow, startup=Startup(load_s=1.5, ready_ns=-2_000_000_000)),
        "a cold start too short": load_result((*COLD, "--duration", "5"), slow[:200]),
        "a warm-up that ended": load_result(WARM, sent, warmed=WarmUpOutcome(2.15, True, 0.25, None)),
        "a warm-up that never ended": load_result(WARM, sent, warmed=WarmUpOutcome(10.0, False, None, "not steady")),
        "a warm-up cut short": load_result(WARM, [], measured_s=0.0, interrupted="stopped"),
        "outputs of fp32": _outputs({"atol": 1e-4, "rtol": 1e-3}, "fp32"),
        "outputs by matches": _outputs({"min_match": 0.5}, max_abs_error=None, cosine_min=None),
        "outputs by cosine": _outputs({"min_cosine": 0.9, "max_spread_error": 0.447}, spread_error_max=1.77),
        "outputs of an earlier version": _outputs({}, max_abs_error=None, cosine_min=None, samples=None),
        "outputs alike": alike,
        "outputs alike, but wrong": {**alike, "verdict": {**alike["verdict"], "constraints": [differs]}},
        "a mix, one part without answers": whole
        | {"mix": [whole | {"workload": "a", "share": 0.75}, quiet | {"workload": "b", "share": 0.25}]},
    }


def _searches(searched: dict[str, Any]) -> dict[str, Any]:
    """A search for the highest rate that ended otherwise."""
    ends: dict[str, dict[str, Any]] = {
        "at least": {"ci95": [50.0, None], "reason": "at higher rates the generator was late"},
        "none": {"rate": None, "ci95": None, "reason": "not met at 8/s"},
        "no rate yet": {"rate": None, "ci95": None, "bottleneck": "other work", "reason": "no rate was met twice"},
    }
    return {f"search: {name}": searched | {"max_rate": searched["max_rate"] | end} for name, end in ends.items()}


def _series() -> Any:
    """Readings of two exporters during a run."""
    usual = {"period_s": 0.5, "readings_per_point": 1, "readings": 3, "skipped": 0, "cpu_s": 0.1, "longest_ms": 2.0}
    column = {"unit": "ratio", "labels": {"gpu": "0"}, "counter": False, "values": [0.25, None, 0.75], "reason": "late"}
    throttled = {**column, "name": "gpu_throttled", "labels": {"gpu": "0", "reason": "hw_thermal"}, "reason": ""}
    columns = {
        "machine": [
            *({**column, "name": "gpu_utilization_ratio", "labels": {"gpu": f"{number}"}} for number in range(11)),
            {**column, "name": "gpu_joules", "counter": True},
            *({**throttled, "values": [0.0, held, 0.0]} for held in (0.0, 1.0)),
        ],
        "node": [
            {**throttled, "values": [0.0, 0.0, 0.0]},
            *({**column, "name": f"figure_{number}", "unit": ""} for number in range(13)),
        ],
    }
    series = [
        {"source": name, **usual, "time_s": [0.5, 1.0, 1.5], "columns": found, "absent": {"fan": "no driver"}}
        for name, found in columns.items()
    ]
    ends = {"start_epoch_s": 0.0, "measured_from_s": 0.5, "measured_until_s": 1.5}
    return {"schema_version": 5, "kind": "machine_series", **ends, "series": series}


def variations(saved: dict[str, Saved], folder: Path) -> dict[str, Saved]:
    """Some of each kind; the folder gets what lies beside a run."""
    found = {
        name: Saved(name, document) for name, document in (_runs() | _searches(saved["max_rate"].document)).items()
    }

    directory.write_series(folder, _series())
    found[RICH] = Saved(RICH, found[RICH].document, folder)

    def changed(kind: str, name: str) -> Any:
        found[name] = Saved(name, document := copy.deepcopy(saved[kind].document))
        return document

    for name, found_as in (
        (BY_COSINE, {"cosine_min": 0.976, "tolerance": {"min_cosine": 0.9}}),
        (BY_MATCHES, {"cosine_min": None, "tolerance": {"min_match": 0.5}}),
    ):
        row = changed("comparison", name)["rows"][1]
        row |= {"precision": "int8", "output_agreement": row["output_agreement"] | found_as}
    mlperf = changed("mlperf", "mlperf: a bound")
    mlperf["plan"] |= {"expected_qps": 300.0, "latency_ms": 15.0, "bound_from": "--slo"}
    mlperf["loadgen"]["50.00_percentile_latency_ns"] = 1_500_000
    broken = {"name": "error_rate", "ok": False, "value": None, "limit": None, "unit": "", "remedy": "see the errors"}
    mlperf = changed("mlperf", "mlperf: INVALID")
    mlperf["verdict"] |= {"valid": False, "constraints": [broken]}
    profile = changed("profile", "profile: nothing")
    del profile["engines"][0]
    [fast, _] = changed("profile", "profile: no operator took time, nor was memory measured")["engines"]
    fast |= {"operators": [], "layers": [], "memory": [], "told_share": 0.0, "between_ms": 1.0}
    fast["categories"] = [each | {"calls": 0, "ms": 0.0, "share": 0.0} for each in fast["categories"]]
    fast["memory_left_out"] = [{"batch_size": 8, "reason": "the time was over: raise --budget"}]
    changed("profile", "profile: on a GPU")["device"] = "cuda:0"
    for kind in changed("synthesis", "synthesis: close")["candidates"][0]["kinds"]:
        kind["totals"][1]["ours"] = kind["totals"][1]["given"]
    told = saved["open"].document | {"engine": None, "device": None, "precision": None}
    found["series: no engine"] = Saved("runs", {"results": [told, told | {"workload": "other"}]})
    return found
