"""Several workloads at given shares in one run: what their results add up to."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from loadgen.evaluation.metrics import errors_of, tail_bounds
from servemark.documents.load import ConstantRate
from servemark.documents.request import RunRequest
from servemark.errors import OptionError
from servemark.machine.scheduling import Priority, least
from servemark.quantities import whole
from servemark.results.bottleneck import GENERATOR, NETWORK, SERVER
from servemark.results.schema.header import figure_of, reason_of
from servemark.results.schema.metrics import (
    Client,
    CpuLatencyFigures,
    EnergyFigures,
    Metrics,
    Quality,
    ServerFigures,
    Throughput,
    WindowFigures,
)
from servemark.results.schema.run import Result
from servemark.results.schema.verdict import Constraint, JudgedObjective, LimitedBy
from servemark.results.verdict import Verdict
from servemark.stats.histogram import Histogram, Latency
from servemark.stats.unknown import explained, unknown, unknown_group
from servemark.workload.golden_check import unchecked

BATCH = "batch"
_EXAMPLE = "write it like ranking=0.7,ncf=0.3 or ranking:batch=1=0.7,ranking:batch=8=0.3"
_OWN = "each workload has its own, under `mix`"


@dataclass(frozen=True)
class Part:
    """A part's share of a mix, its result and its histograms (HdrHistogram V2, µs)."""

    name: str
    """As the mix names it, like `ranking` or `ranking:batch=8`."""
    share: float
    directory: str
    result: Result
    histograms: Mapping[str, str]


def parse_mix(text: str) -> dict[str, float]:
    """Read "ranking=7,ncf=3" or "ranking:batch=1=7,ranking:batch=8=3": shares that add up to 1. Raises OptionError."""
    example = _EXAMPLE
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, separator, number = (piece.strip() for piece in part.rpartition("="))
        try:
            weight = float(number) if separator and name else math.nan
        except ValueError:
            weight = math.nan
        if not 0 < weight < math.inf:
            raise OptionError(f"{part.strip()!r} is not WORKLOAD=SHARE with a share above 0", fix=example)
        if name in shares:
            raise OptionError(f"{name!r} is twice in the mix", fix=example)
        shares[name] = weight
    if len(shares) < 2:
        raise OptionError(f"{text!r} is a mix of one workload", fix=example)
    for name in shares:
        requests_of(name)
    total = sum(shares.values())
    return {name: weight / total for name, weight in shares.items()}


def requests_of(name: str) -> tuple[str, dict[str, Any]]:
    """The workload of a mix's part, and what its requests have of their own, by the request's fields.

    `ranking:batch=8` has 8 samples in a request, `deepspeech2:spect=161x400` an input of this shape.

    Raises OptionError.
    """
    workload, *options = name.split(":")
    values: dict[str, Any] = {}
    shape: dict[str, tuple[int, ...]] = {}
    for option in options:
        key, _, text = option.partition("=")
        if not key:
            raise OptionError(f"{name!r} is not WORKLOAD, or WORKLOAD:batch=N", fix=_EXAMPLE)
        if key == BATCH:
            values["batch_size"] = whole(f"the mix's {key}", text, least=1)
        else:
            shape[key] = tuple(whole(f"the mix's {key}", size, least=1) for size in text.split("x"))
    return workload, values | ({"shape": shape} if shape else {})


def total(parts: Sequence[Part], request: RunRequest) -> Result:
    """The result of a mix: the whole beside each workload's own figures.

    Histograms are merged, never percentiles averaged. The verdict holds where it holds for every workload, and each
    of its constraints and objectives is there under the workload's name.
    """
    first = parts[0].result
    assert isinstance(request.load, ConstantRate)
    constraints: list[Constraint] = [
        {**constraint, "name": f"{part.name}.{constraint['name']}"}
        for part in parts
        for constraint in part.result["verdict"]["constraints"]
    ]
    objectives: list[JudgedObjective] = [
        {**objective, "objective": f"{part.name}.{objective['objective']}"}
        for part in parts
        for objective in part.result["verdict"]["objectives"]
    ]
    sent = [each for part in parts for each in part.result.get("telemetry", [])]
    skipped = {f"{p.name}.{k}": why for p in parts for k, why in p.result["verdict"]["skipped"].items()}
    document: Result = {
        **first,
        "workload": "mix",
        "task": "mix",
        "suites": [],
        "request": msgspec.to_builtins(request),
        "resolved": {**first["resolved"], "model": None, "mix": {part.name: part.share for part in parts}},
        "verdict": Verdict(constraints, objectives, skipped).to_dict(),
        "bottleneck": _bottleneck(parts),
        "metrics": _metrics(parts),
        "windows": _windows(parts),
        "stages": [],
        "mix": [
            {
                "workload": part.name,
                "share": part.share,
                "directory": part.directory,
                "batch_size": part.result["batch_size"],
                "verdict": part.result["verdict"],
                "bottleneck": part.result["bottleneck"],
                "metrics": without_energy(part.result)["metrics"],
            }
            for part in parts
        ],
        "partial": any(part.result["partial"] for part in parts),
    }
    if sent:
        document["telemetry"] = sent
    return document


@explained
def without_energy(result: Result) -> Result:
    """One workload's result: its process's meter read what all workloads of the mix took together."""
    reason = "the meter read all workloads of the mix together"
    energy: EnergyFigures = {
        **unknown_group(EnergyFigures, reason),
        "joules_per_inference_ci95": unknown(reason),
        "joules_per_request": unknown(reason),
    }
    return {**result, "metrics": {**result["metrics"], "energy": energy}}


def histograms(parts: Sequence[Part]) -> dict[str, str]:
    """The merged histograms."""
    return {name: _merged(parts, name, 0).encode() for name in parts[0].histograms}


@explained
def _metrics(parts: Sequence[Part]) -> Metrics:
    metrics = [part.result["metrics"] for part in parts]
    errors = [each["errors"] for each in metrics]
    failed = sum(each["count"] for each in errors)
    latency = _merged(parts, "latency_us", failed)
    kinds = sorted({kind for each in errors for kind in each["by_kind"]})
    throughput = _throughput([each["throughput"] for each in metrics])
    delays = [each["schedule_delay_ms"] for each in metrics]
    late = sum((d["late_share"] or 0.0) * d["count"] for d in delays) / max(sum(d["count"] for d in delays), 1)
    return {
        "latency_ms": _summary(latency, [each["latency_ms"] for each in metrics]),
        "answered_latency_ms": latency.answered().percentiles(),
        "service_time_ms": _summary(
            _merged(parts, "service_time_us", failed), [each["service_time_ms"] for each in metrics]
        ),
        "schedule_delay_ms": {**_summary(_merged(parts, "schedule_delay_us", 0), delays), "late_share": late},
        "tail_bounds": tail_bounds(latency, []),
        "throughput": throughput,
        "errors": errors_of(
            {kind: sum(each["by_kind"].get(kind, 0) for each in errors) for kind in kinds},
            {kind: [text for each in errors for text in each["messages"].get(kind, [])] for kind in kinds},
            latency.count + failed,
        ),
        "correctness": {
            "output_agreement": {**unchecked(_OWN), "checked": unknown(_OWN)},
            "quality": unknown_group(Quality, _OWN),
        },
        "energy": _energy(metrics, throughput),
        "server": unknown_group(ServerFigures, _OWN),
        "client": _client(parts),
        # All processes watched the same machine.
        "cpu": metrics[0]["cpu"],
    }


@explained
def _throughput(rates: Sequence[Throughput]) -> Throughput:
    return {
        "requests_per_s": _joined(sum, rates, "requests_per_s"),
        "inferences_per_s": _joined(sum, rates, "inferences_per_s"),
        "achieved_rate": _joined(sum, rates, "achieved_rate"),
        "goodput": _joined(sum, rates, "goodput"),
        "scheduled_rate": _joined(sum, rates, "scheduled_rate"),
    }


def _client(parts: Sequence[Part]) -> Client:
    """Of the processes together; the busiest one's share of a core, and the least priority."""
    clients = [part.result["metrics"]["client"] for part in parts]
    named = zip([part.name for part in parts], clients, strict=True)
    granted = least((name, Priority(each["priority"]), each.get("priority_note")) for name, each in named)
    return {
        **granted.to_dict(),
        **CpuLatencyFigures(),  # each process asked by itself
        "cpu_utilization": _joined(max, clients, "cpu_utilization"),
        "max_in_flight": sum(each["max_in_flight"] for each in clients),
        "waited_share": max(each["waited_share"] or 0.0 for each in clients),
        "generator_delay_p99_ms": unknown(_OWN),
        "sampling_cpu_utilization": unknown(_OWN),
        "workers": len(clients),
        "requests_outside_interval": sum(each["requests_outside_interval"] for each in clients),
    }


def _joined(join: Callable[[list[float]], float], groups: Sequence[Mapping[str, object]], key: str) -> float | None:
    """A figure of all workloads joined to one; not known where one of them is not, for its reason."""
    gap = next((each for each in groups if each[key] is None), None)
    if gap is not None:
        return unknown(reason_of(gap, key) or _OWN)
    return join([value for each in groups if (value := figure_of(each, key)) is not None])


def _merged(parts: Sequence[Part], name: str, failed: int) -> Histogram:
    merged = Histogram()
    merged.failed = failed
    for part in parts:
        merged.merge(Histogram.decode(part.histograms[name]))
    return merged


def _summary(histogram: Histogram, parts: Sequence[Latency]) -> Latency:
    """The merged percentiles; mean, deviation and extremes from the parts' own, which are exact."""
    merged = histogram.summary()
    counted = [part for part in parts if part["count"]]
    if not counted:
        return merged
    count = sum(part["count"] for part in counted)
    mean = sum(part["count"] * (part["mean"] or 0.0) for part in counted) / count
    squares = [part["count"] * ((part["stdev"] or 0.0) ** 2 + (part["mean"] or 0.0) ** 2) for part in counted]
    return {
        **merged,
        "mean": mean,
        "stdev": math.sqrt(max(sum(squares) / count - mean**2, 0.0)),
        "min": min(part["min"] or 0.0 for part in counted),
        "max": max(part["max"] or 0.0 for part in counted),
    }


def _energy(metrics: Sequence[Metrics], throughput: Throughput) -> EnergyFigures:
    """Every process metered the same device: one reading is that of all workloads together."""
    inferences_per_s, requests_per_s = throughput["inferences_per_s"], throughput["requests_per_s"]
    energy, own = metrics[0]["energy"], metrics[0]["throughput"]["inferences_per_s"]
    if energy["joules_per_inference"] is None or own is None or not inferences_per_s or not requests_per_s:
        return energy
    share = own / inferences_per_s
    found: EnergyFigures = {**energy, "joules_per_inference": energy["joules_per_inference"] * share}
    if (ends := energy.get("joules_per_inference_ci95")) is not None:
        found["joules_per_inference_ci95"] = [end * share for end in ends]
    if (per_request := energy.get("joules_per_request")) is not None:
        found["joules_per_request"] = per_request * (metrics[0]["throughput"]["requests_per_s"] or 0.0) / requests_per_s
    return found


def _bottleneck(parts: Sequence[Part]) -> LimitedBy:
    found = [part.result["bottleneck"] for part in parts]
    by = next((name for name in (GENERATOR, SERVER, NETWORK) if name in {each["by"] for each in found}), None)
    evidence = "; ".join(f"{p.name}: {each['evidence']}" for p, each in zip(parts, found, strict=True))
    if by is None:
        alike = len({each["evidence"] for each in found}) == 1
        evidence = found[0]["evidence"] if alike else f"not known: {evidence}"
    return {"by": by, "evidence": evidence}


@explained
def _windows(parts: Sequence[Part]) -> list[WindowFigures]:
    """Throughput and errors of all; percentiles of a window are each workload's own."""
    return [
        {
            "start_s": windows[0]["start_s"],
            "requests_per_s": sum(window["requests_per_s"] for window in windows),
            "count": sum(window.get("count", 0) for window in windows),
            "errors": sum(window["errors"] for window in windows),
            "p50_ms": unknown(_OWN),
            "p90_ms": unknown(_OWN),
            "p95_ms": unknown(_OWN),
            "p99_ms": unknown(_OWN),
            "max_ms": unknown(_OWN),
            "over_slo": unknown(_OWN),
        }
        for windows in zip(*(part.result["windows"] for part in parts), strict=False)
    ]
