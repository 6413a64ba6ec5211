"""Several workloads at given shares in one run: what their results add up to."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from servemark.documents.load import ConstantRate
from servemark.documents.request import RunRequest
from servemark.errors import OptionError
from servemark.figures.figure import OWN, merged
from servemark.figures.figure import Part as Joined
from servemark.figures.registry import count_of, joined
from servemark.figures.value import FigureValue
from servemark.machine.scheduling import Priority, least
from servemark.quantities import whole
from servemark.results.bottleneck import GENERATOR, NETWORK, SERVER
from servemark.results.schema.details import BOTH, Constraint, Details, JudgedObjective, LimitedBy, WindowFigures
from servemark.results.schema.run import Result
from servemark.results.verdict import conclude
from servemark.stats.histogram import Histogram
from servemark.stats.unknown import explained, unknown

BATCH = "batch"
_EXAMPLE = "write it like ranking=0.7,ncf=0.3 or ranking:batch=1=0.7,ranking:batch=8=0.3"


@dataclass(frozen=True)
class Part:
    """A part's share of a mix, its result and its histograms (HdrHistogram V2, µs)."""

    name: str
    """As the mix names it, like `ranking` or `ranking:batch=8`."""
    share: float
    directory: str
    result: Result
    histograms: Mapping[str, str]

    @property
    def joined(self) -> Joined:
        """Its figures and histograms, to be joined with those of the others."""
        found = {name.removesuffix("_us"): Histogram.decode(text) for name, text in self.histograms.items()}
        for name in found.keys() & {"latency", "service_time"}:
            found[name].failed = count_of(self.result, "errors.count")
        return Joined(self.result["figures"], found)


def parse_mix(text: str) -> dict[str, float]:
    """Read "ranking=7,ncf=3" or "ranking:batch=1=7,ranking:batch=8=3": shares that add up to 1. Raises OptionError."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, separator, number = (piece.strip() for piece in part.rpartition("="))
        try:
            weight = float(number) if separator and name else math.nan
        except ValueError:
            weight = math.nan
        if not 0 < weight < math.inf:
            raise OptionError(f"{part.strip()!r} is not WORKLOAD=SHARE with a share above 0", fix=_EXAMPLE)
        if name in shares:
            raise OptionError(f"{name!r} is twice in the mix", fix=_EXAMPLE)
        shares[name] = weight
    if len(shares) < 2:
        raise OptionError(f"{text!r} is a mix of one workload", fix=_EXAMPLE)
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
        "verdict": conclude(constraints, objectives, skipped),
        "bottleneck": _bottleneck(parts),
        "figures": joined([part.joined for part in parts]),
        "details": _details(parts),
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
                "figures": own_figures(part.result),
                "details": part.result["details"],
            }
            for part in parts
        ],
        "partial": any(part.result["partial"] for part in parts),
    }
    if sent:
        document["telemetry"] = sent
    return document


def own_figures(result: Result) -> dict[str, FigureValue]:
    """One workload's figures but for the energy: its process's meter read what all workloads took together."""
    reason = "the meter read all workloads of the mix together"
    return {
        tag: {"value": None, "unit": found["unit"], "reason": reason} if tag.startswith("energy.") else found
        for tag, found in result["figures"].items()
    }


def histograms(parts: Sequence[Part]) -> dict[str, str]:
    """The merged histograms."""
    joined = [part.joined for part in parts]
    return {name: merged(name.removesuffix("_us"), joined).encode() for name in parts[0].histograms}


@explained
def _details(parts: Sequence[Part]) -> Details:
    """The details of all workloads together; the server's statistics and the outputs are each workload's own."""
    details = [part.result["details"] for part in parts]
    kinds = sorted({kind for each in details for kind in each["errors"]["by_kind"]})
    named = zip([part.name for part in parts], [each["generator"] for each in details], strict=True)
    granted = least((name, Priority(each["priority"]), each.get("priority_note")) for name, each in named)
    found: Details = {
        "errors": {
            "by_kind": {kind: sum(each["errors"]["by_kind"].get(kind, 0) for each in details) for kind in kinds},
            "messages": {
                kind: [text for each in details for text in each["errors"]["messages"].get(kind, [])] for kind in kinds
            },
        },
        "outputs": {},
        "quality": {"metric": unknown(OWN), "dataset": unknown(OWN)},
        # All processes watched the same machine, and the same meter.
        "energy": details[0]["energy"],
        "server": {"batch_sizes": unknown(OWN)},
        "generator": granted.to_dict(),
    }
    if "cpu" in details[0]:
        found["cpu"] = details[0]["cpu"]
    clocks = {each["clock"]["receive"] for each in details if "clock" in each}
    if clocks:
        found["clock"] = {"receive": clocks.pop() if len(clocks) == 1 else BOTH}
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
            "p50_ms": unknown(OWN),
            "p90_ms": unknown(OWN),
            "p95_ms": unknown(OWN),
            "p99_ms": unknown(OWN),
            "max_ms": unknown(OWN),
            "over_slo": unknown(OWN),
        }
        for windows in zip(*(part.result["windows"] for part in parts), strict=False)
    ]
