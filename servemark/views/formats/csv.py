"""One row a result, for a spreadsheet: figures have their unit in the column's name."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from servemark.output import printable
from servemark.results.labels import describe
from servemark.results.saved import Saved

Row = dict[str, Any]
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A cell that begins so is a formula to a spreadsheet (OWASP, "CSV Injection")."""
_LATENCIES = ("mean", "stdev", "min", "p50", "p90", "p95", "p99", "p99_9", "max")


def to_csv(documents: Sequence[Saved]) -> str:
    """The rows of all documents under all their columns. Raises KeyError, TypeError where one is damaged."""
    rows = [row for saved in documents for row in _ROWS[saved.kind](saved)]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writerow({column: _cell(column) for column in columns})  # a suite's are keys of its document
    writer.writerows({column: _cell(value) for column, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """A number as it is; words on one line, and never a formula."""
    if not isinstance(value, str):
        return value
    words = printable(value).replace("\n", " ").replace("\t", " ")
    return f"'{words}" if value.startswith(_FORMULA) else words


def _header(saved: Saved) -> Row:
    document = saved.document
    return {"result": saved.name, "kind": saved.kind, "created_utc": document.get("created")}


def _circumstances(document: Mapping[str, Any]) -> Row:
    around = document["environment"]
    return {
        "hostname": around.get("hostname"),
        "cpu": around.get("cpu"),
        "cores": around.get("cores"),
        "gpus": ", ".join(gpu["name"] for gpu in around.get("gpus") or []),
        "git_commit": around.get("git_commit"),
        "git_dirty": around.get("git_dirty"),
    }


def _verdict(verdict: Mapping[str, Any]) -> Row:
    failed = [each["name"] for each in verdict["constraints"] if not each["ok"]]
    return {"valid": verdict["valid"], "failed_constraints": " ".join(failed), "objective": verdict["objective"]}


def _run(saved: Saved) -> list[Row]:
    result, metrics = saved.document, saved.document["metrics"]
    scenario, throughput, errors = result["scenario"], metrics["throughput"], metrics["errors"]
    server, energy, client = metrics["server"], metrics["energy"], metrics["client"]
    found = result.get("max_rate")
    row = {
        **_header(saved),
        **{key: result[key] for key in ("workload", "engine", "device", "precision", "protocol", "batch_size")},
        "load": describe(scenario),
        "requested_rate_per_s": scenario["requested_rate"],
        "concurrency": scenario["concurrency"],
        "duration_s": scenario["duration_s"],
        **_verdict(result["verdict"]),
        "slo": result["request"]["objectives"]["slo"] or None,
        "bottleneck": result["bottleneck"]["by"],
        "requests": metrics["latency_ms"]["count"],
        "failed_requests": errors["count"],
        "failed_share": errors["share"],
        "requests_per_s": throughput["requests_per_s"],
        "inferences_per_s": throughput["inferences_per_s"],
        "goodput_per_s": throughput["goodput"],
        **{f"latency_{key}_ms": metrics["latency_ms"][key] for key in _LATENCIES},
        **{f"service_time_{key}_ms": metrics["service_time_ms"][key] for key in ("mean", "p50", "p99")},
        **{f"schedule_delay_{key}_ms": metrics["schedule_delay_ms"][key] for key in ("mean", "p50", "p99")},
        **{f"server_{key}": server[key] for key in ("queue_ms", "compute_infer_ms", "batch_size_mean")},
        "client_cpu_utilization": client["cpu_utilization"],
        "energy_joules_per_inference": energy["joules_per_inference"],
        "energy_average_w": energy["average_w"],
        "energy_boundary": energy["boundary"],
        "max_rate_per_s": found and found["rate"],
        **_circumstances(result),
    }
    return [row]


def _comparison(saved: Saved) -> list[Row]:
    """A row for each engine."""
    document = saved.document
    return [
        {
            **_header(saved),
            "workload": document["workload"],
            **{key: row[key] for key in ("label", "engine", "device", "precision")},
            "batch_size": document["batch_size"],
            "valid": row["verdict"]["valid"],
            "failed_constraints": " ".join(row["verdict"]["failed"]),
            "rounds": row["rounds"],
            "requests": row["latency_ms"]["count"],
            "inferences_per_s": row["inferences_per_s"]["mean"],
            **{f"latency_{key}_ms": row["latency_ms"][key] for key in ("p50", "p90", "p99")},
            "max_rate_per_s": row["max_rate"] and row["max_rate"]["rate"],
            "energy_joules_per_inference": row["energy"]["joules_per_inference"],
            "quality": (row.get("quality") or {}).get("value"),
            "quality_of_fp32": (row.get("quality") or {}).get("of_fp32"),
            "baseline": document["baseline"],
            **{name: value for key in ("p50", "p99", "inferences_per_s") for name, value in _ratio(row, key).items()},
            **_circumstances(document),
        }
        for row in document["rows"]
    ]


def _ratio(row: Mapping[str, Any], key: str) -> Row:
    ratio = row["ratio"][key] or {}
    low, high = ratio.get("ci95") or (None, None)
    return {f"{key}_ratio": ratio.get("value"), f"{key}_ratio_low": low, f"{key}_ratio_high": high}


def _saved_comparison(saved: Saved) -> list[Row]:
    """A row for each figure."""
    document = saved.document
    return [
        {
            **_header(saved),
            "a": subject["a"],
            "b": subject["b"],
            **{key: each[key] for key in ("figure", "reading", "judged")},
            "value_a": each["a"],
            "value_b": each["b"],
            "ratio": each["ratio"] and each["ratio"]["value"],
            "outcome": document["outcome"],
        }
        for subject in document["subjects"]
        for each in subject["differences"]
    ]


def _suite(saved: Saved) -> list[Row]:
    """A row for each workload."""
    document = saved.document
    names = {"mean_ms": "latency_mean_ms", "p50_ms": "latency_p50_ms", "p99_ms": "latency_p99_ms"}
    return [
        {
            **_header(saved),
            "suite": document["suite"],
            "engine": document["engine"],
            **{names.get(key, key): value for key, value in row.items() if not key.endswith("_reason")},
            **_circumstances(document),
        }
        for row in document["rows"]
    ]


def _tuning(saved: Saved) -> list[Row]:
    document = saved.document
    winner, ratio = document["winner"], document["ratio"] or {}
    return [
        {
            **_header(saved),
            **{key: document[key] for key in ("workload", "engine", "device", "precision", "batch_size")},
            "slo": document["request"]["objectives"]["slo"] or None,
            "outcome": document["outcome"],
            "present": document["present"]["text"],
            "winner": winner and winner["text"],
            "max_rate_before_per_s": document["rates_requests_per_s"]["before"],
            "max_rate_per_s": document["rates_requests_per_s"]["after"],
            "max_rate_ratio": ratio.get("value"),
            **_circumstances(document),
        }
    ]


def _mlperf(saved: Saved) -> list[Row]:
    result = saved.document
    latency = result["metrics"]["latency_ms"]
    return [
        {
            **_header(saved),
            **{key: result[key] for key in ("workload", "engine", "device", "precision", "protocol")},
            "load": f"MLPerf {result['scenario']}",
            **_verdict(result["verdict"]),
            "requests": latency["count"],
            "failed_requests": result["metrics"]["errors"]["count"],
            **{f"latency_{key}_ms": latency[key] for key in ("p50", "p90", "p99")},
            **{f"loadgen_{key}": result["loadgen"].get(key) for key in ("validity", "version")},
            **_circumstances(result),
        }
    ]


def _quality(saved: Saved) -> list[Row]:
    """A row for each figure."""
    result, found = saved.document, saved.document["quality"]
    return [
        {
            **_header(saved),
            **{key: result[key] for key in ("workload", "engine", "device", "precision", "protocol")},
            "figure": figure["name"],
            "value": figure["value"],
            **dict(zip(("value_low", "value_high"), figure["ci95"] or (None, None), strict=True)),
            "target": found["target"] if number == 0 else None,
            "outcome": found["outcome"] if number == 0 else None,
            "weights": found["weights"],
            "examples": found["data"]["scored"],
            "wrong_examples": found["wrong"],
            "data_sha256": found["data"]["sha256"],
            **_circumstances(result),
        }
        for number, figure in enumerate(found["figures"] if found else [])
    ]


def _kernels(saved: Saved) -> list[Row]:
    """A row for each case."""
    document = saved.document
    return [
        {
            **_header(saved),
            **{key: case[key] for key in ("family", "label", "precision", "status")},
            "device": document["device"],
            "kernel_median_ms": case["ms"] and case["ms"]["median"],
            **{key: case[key] for key in ("tflops", "gbps", "bound", "bound_share", "error", "tolerance")},
            "failure": case["reason"],
            **_circumstances(document),
        }
        for case in document["cases"]
    ]


def _history(saved: Saved) -> list[Row]:
    """A row for each result of each series."""
    document = saved.document
    return [
        {
            **_header(saved),
            **{key: series[key] for key in ("subject", "machine", "outcome")},
            "metric": document["metric"],
            "unit": document["unit"],
            **{key: each[key] for key in ("folder", "value", "valid", "used")},
            "git_commit": each["commit"],
            "git_dirty": each["dirty"],
        }
        for series in document["series"]
        for each in series["results"]
    ]


_ROWS: dict[str, Callable[[Saved], list[Row]]] = {
    "load": _run,
    "comparison": _comparison,
    "saved_comparison": _saved_comparison,
    "suite": _suite,
    "tuning": _tuning,
    "mlperf": _mlperf,
    "kernels": _kernels,
    "quality": _quality,
    "history": _history,
}
