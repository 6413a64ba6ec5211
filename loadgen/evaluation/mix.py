"""Several workloads at given shares in one run: what their results add up to."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadgen.evaluation.early_stopping import early_stopping
from servemark.errors import ExitCode, OptionError
from servemark.results.bottleneck import GENERATOR, NETWORK, SERVER
from servemark.stats.histogram import Histogram
from servemark.workload import Slo

_OWN = "each workload has its own, under `mix`"


@dataclass(frozen=True)
class Part:
    """One workload's share of a mix, its result and its histograms (HdrHistogram V2, µs)."""

    share: float
    directory: str
    result: Mapping[str, Any]
    histograms: Mapping[str, str]

    @property
    def name(self) -> str:
        """The workload."""
        return str(self.result["workload"])


def parse_mix(text: str) -> dict[str, float]:
    """Read "ranking=7,ncf=3" as shares that add up to 1. Raises OptionError."""
    example = "write it like ranking=0.7,ncf=0.3"
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, separator, number = (piece.strip() for piece in part.partition("="))
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
    total = sum(shares.values())
    return {name: weight / total for name, weight in shares.items()}


def total(parts: Sequence[Part], scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a mix: the whole beside each workload's own figures.

    Histograms are merged, never percentiles averaged. The verdict holds where it holds for every workload, and each
    of its constraints is there under the workload's name.
    """
    first = parts[0].result
    judged = [
        {**constraint, "name": f"{part.name}.{constraint['name']}"}
        for part in parts
        for constraint in part.result["verdict"]["constraints"]
    ]
    codes = [part.result["verdict"]["exit_code"] for part in parts]
    config = {**first["config"], "workload": None, "model": None, "mix": {part.name: part.share for part in parts}}
    not_judged = {f"{p.name}.{k}": why for p in parts for k, why in p.result["verdict"]["not_judged"].items()}
    return {
        **first,
        "workload": "mix",
        "task": "mix",
        "suites": [],
        "config": {**config, "request_rate": scenario["requested_rate"]},
        "scenario": {**first["scenario"], **scenario, "mode": "mix"},
        "verdict": {
            "valid": all(part.result["verdict"]["valid"] for part in parts),
            "exit_code": int(ExitCode.worst(codes)),
            "constraints": judged,
            "not_judged": not_judged,
        },
        "limited_by": _limited_by(parts),
        "metrics": _metrics(parts, first["config"]["slo"]),
        "windows": _windows(parts),
        "stages": [],
        "mix": [
            {
                "workload": part.name,
                "share": part.share,
                "directory": part.directory,
                **{key: part.result[key] for key in ("batch_size", "verdict", "limited_by")},
                "metrics": without_energy(part.result)["metrics"],
            }
            for part in parts
        ],
        "partial": any(part.result["partial"] for part in parts),
    }


def without_energy(result: Mapping[str, Any]) -> dict[str, Any]:
    """One workload's result: its process's meter read what all workloads of the mix took together."""
    energy = _unknown(result["metrics"]["energy"], "the meter read all workloads of the mix together")
    return {**result, "metrics": {**result["metrics"], "energy": energy}}


def histograms(parts: Sequence[Part]) -> dict[str, str]:
    """The merged histograms."""
    return {name: _merged(parts, name).encode() for name in parts[0].histograms}


def _metrics(parts: Sequence[Part], slo: str | None) -> dict[str, Any]:
    metrics = [part.result["metrics"] for part in parts]
    latency = _merged(parts, "latency_us")
    errors = [each["errors"] for each in metrics]
    failed = sum(each["count"] for each in errors)
    scheduled = latency.count + failed
    kinds = {kind for each in errors for kind in each["by_kind"]}
    throughput = _together(metrics, "throughput", _RATES, sum)
    delays = [each["schedule_delay_ms"] for each in metrics]
    late = sum((d["late_share"] or 0.0) * d["count"] for d in delays) / max(sum(d["count"] for d in delays), 1)
    return {
        "latency_ms": _summary(latency, [each["latency_ms"] for each in metrics]),
        "service_time_ms": _summary(_merged(parts, "service_time_us"), [each["service_time_ms"] for each in metrics]),
        "schedule_delay_ms": {**_summary(_merged(parts, "schedule_delay_us"), delays), "late_share": late},
        "early_stopping": early_stopping(latency, failed, Slo.parse(slo) if slo else None),
        "throughput": throughput,
        "errors": {
            "count": failed,
            "share": failed / max(scheduled, 1),
            "by_kind": {kind: sum(each["by_kind"].get(kind, 0) for each in errors) for kind in sorted(kinds)},
            "messages": {k: [text for each in errors for text in each["messages"].get(k, [])] for k in sorted(kinds)},
        },
        "accuracy": _accuracy(metrics[0]["accuracy"]),
        "energy": _energy(metrics, throughput["inferences_per_s"]),
        "server": _unknown(metrics[0]["server"], _OWN),
        "client": {
            **_together(metrics, "client", ["cpu_share"], max),
            "max_in_flight": sum(each["client"]["max_in_flight"] for each in metrics),
            "waited_share": max(each["client"]["waited_share"] or 0.0 for each in metrics),
            **_unknown({"own_delay_p99_ms": None}, _OWN),
            "workers": len(parts),
            "requests_outside_interval": sum(each["client"]["requests_outside_interval"] for each in metrics),
        },
    }


_RATES = ("requests_per_s", "inferences_per_s", "requested_rate", "scheduled_rate", "achieved_rate")


def _together(
    metrics: Sequence[Mapping[str, Any]], group: str, keys: Sequence[str], join: Callable[[list[float]], float]
) -> dict[str, Any]:
    """Figures of all workloads joined to one; not known where one of them is not, for its reason."""
    joined: dict[str, Any] = {}
    for key in keys:
        figures = [each[group] for each in metrics]
        unknown = next((each for each in figures if each[key] is None), None)
        joined |= (
            {key: join([each[key] for each in figures])}
            if unknown is None
            else _unknown([key], unknown[f"{key}_reason"])
        )
    return joined


def _merged(parts: Sequence[Part], name: str) -> Histogram:
    whole = Histogram()
    for part in parts:
        whole.merge(Histogram.decode(part.histograms[name]))
    return whole


def _summary(whole: Histogram, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The merged percentiles; mean, deviation and extremes from the parts' own, which are exact."""
    known = [part for part in parts if part["count"]]
    if not known:
        return whole.summary()
    count = sum(part["count"] for part in known)
    mean = sum(part["count"] * part["mean"] for part in known) / count
    square = sum(part["count"] * (part["stdev"] ** 2 + part["mean"] ** 2) for part in known) / count
    return {
        **whole.summary(),
        "mean": mean,
        "stdev": math.sqrt(max(square - mean**2, 0.0)),
        "min": min(part["min"] for part in known),
        "max": max(part["max"] for part in known),
    }


def _unknown(keys: Iterable[str], reason: str) -> dict[str, Any]:
    """The same keys without figures, and why."""
    names = [key for key in keys if not key.endswith("_reason")]
    return dict.fromkeys(names) | {f"{name}_reason": reason for name in names}


def _accuracy(one: Mapping[str, Any]) -> dict[str, Any]:
    agreement, quality = _unknown(one["output_agreement"], _OWN), _unknown(one["quality"], _OWN)
    return {"output_agreement": agreement, "quality": quality}


def _energy(metrics: Sequence[Mapping[str, Any]], inferences_per_s: float | None) -> dict[str, Any]:
    """Every process metered the same device: one reading is that of all workloads together."""
    energy = dict(metrics[0]["energy"])
    if energy["joules_per_inference"] is not None and inferences_per_s:
        energy["joules_per_inference"] *= metrics[0]["throughput"]["inferences_per_s"] / inferences_per_s
    return energy


def _limited_by(parts: Sequence[Part]) -> dict[str, str | None]:
    found = [part.result["limited_by"] for part in parts]
    by = next((name for name in (GENERATOR, SERVER, NETWORK) if name in {each["by"] for each in found}), None)
    return {
        "by": by,
        "evidence": "; ".join(f"{p.name}: {each['evidence']}" for p, each in zip(parts, found, strict=True)),
    }


def _windows(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Throughput and errors of all; percentiles of a window are each workload's own."""
    return [
        {
            "start_s": windows[0]["start_s"],
            "requests_per_s": sum(window["requests_per_s"] for window in windows),
            "p50_ms": None,
            "p99_ms": None,
            "errors": sum(window["errors"] for window in windows),
        }
        for windows in zip(*(part.result["windows"] for part in parts), strict=False)
    ]
