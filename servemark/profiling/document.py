"""The document of a profile: what was measured of an engine, summed up by operator, layer, category and phase."""

from collections.abc import Callable, Iterable, Sequence

from kernels.measurement.case import bandwidth
from servemark.profiling.engines import profiler_module
from servemark.profiling.measure import Measured
from servemark.profiling.operators import CATEGORIES, category_of, known
from servemark.profiling.timeline import Part, parts_of
from servemark.results.schema.kernels import Ceiling
from servemark.results.schema.profile import (
    EngineProfile,
    ProfiledLayer,
    ProfiledMemory,
    ProfiledOperator,
    ProfiledShare,
    Rates,
)
from servemark.stats.unknown import explained, or_unknown, unknown

_NO_SHAPES = "the profiler does not tell the shapes of its tensors"
_NO_CEILING = "the ceilings were not measured"
_NO_WORK = "it computes nothing, or moves nothing"
_NO_TIME = "it takes no time"


@explained
def engine_profile(
    engine: str, measured: Measured, ceiling: Ceiling | None, memory: Sequence[ProfiledMemory] = ()
) -> EngineProfile:
    """Sum up one engine's inference; `ceiling` gives the shares of the highest rates."""
    inference = measured.inference
    parts = parts_of(inference)
    whole_us, told_us = inference.seconds * 1e6, sum(part.us for part in parts)
    told = {part.phase for part in parts} != {"no module"}
    reason = "the model's file tells neither modules nor loops" if not told else profiler_module(engine).NO_STEPS

    def rates(own: Sequence[Part]) -> Rates:
        return _rates(own, whole_us, ceiling)

    return {
        "engine": engine,
        "provider": measured.provider,
        "profiler": measured.profiler,
        "latency_ms": whole_us / 1e3,
        "cost": measured.cost,
        "told_share": told_us / whole_us,
        "between_ms": (whole_us - told_us) / 1e3,
        "flops": or_unknown(_sum(part.event.flops for part in parts), _NO_SHAPES),
        "unknown_operators": sorted({part.event.operator for part in parts if not known(part.event.operator)}),
        "categories": _shares(parts, lambda part: category_of(part.event.operator), whole_us, CATEGORIES),
        "phases": _shares(parts, lambda part: part.phase, whole_us) if told else [],
        "phases_missing": reason,
        "operators": sorted(
            (_operator(own, rates(own)) for own in _grouped(parts, lambda part: part.event.operator).values()),
            key=lambda each: -each["ms"],
        ),
        "layers": [_layer(own, rates(own)) for own in _grouped(parts, lambda part: part.event.name).values()],
        "counters": measured.counters,
        "memory": list(memory),
        "memory_left_out": [],
    }


@explained
def failed(engine: str, reason: str) -> EngineProfile:
    """An engine that could not be profiled."""
    return {
        "engine": engine,
        "provider": unknown(reason),
        "profiler": unknown(reason),
        "latency_ms": unknown(reason),
        "cost": unknown(reason),
        "told_share": unknown(reason),
        "between_ms": unknown(reason),
        "flops": unknown(reason),
        "unknown_operators": [],
        "categories": [],
        "phases": [],
        "phases_missing": reason,
        "operators": [],
        "layers": [],
        "counters": unknown(reason),
        "memory": [],
    }


def _grouped(parts: Iterable[Part], key: Callable[[Part], str]) -> dict[str, list[Part]]:
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(key(part), []).append(part)
    return found


def _shares(
    parts: Sequence[Part], key: Callable[[Part], str], whole_us: float, names: Iterable[str] = ()
) -> list[ProfiledShare]:
    found = {name: list[Part]() for name in names} | _grouped(parts, key)
    sums = {name: sum(part.us for part in own) for name, own in found.items()}
    return [
        {"name": name, "calls": len(own), "ms": sums[name] / 1e3, "share": sums[name] / whole_us}
        for name, own in found.items()
    ]


def _operator(own: Sequence[Part], rates: Rates) -> ProfiledOperator:
    operator = own[0].event.operator
    return {**rates, "operator": operator, "category": category_of(operator), "calls": len(own)}


def _layer(own: Sequence[Part], rates: Rates) -> ProfiledLayer:
    event = own[0].event
    module = or_unknown(event.module or None, "the file does not tell the module")
    return {**_operator(own, rates), "name": event.name, "looped": event.step is not None, "module": module}


def _rates(own: Sequence[Part], whole_us: float, ceiling: Ceiling | None) -> Rates:
    us = sum(part.us for part in own)
    flops, moved = (_sum(part.event.flops for part in own), _sum(part.event.bytes for part in own))
    missing = _NO_CEILING if ceiling is None else _NO_SHAPES if None in (flops, moved) else _NO_TIME
    rates: Rates = {
        "ms": us / 1e3,
        "share": us / whole_us,
        "flops": or_unknown(flops, _NO_SHAPES),
        "bytes": or_unknown(moved, _NO_SHAPES),
        "intensity": unknown(_NO_SHAPES if None in (flops, moved) else _NO_WORK),
        "compute_share": unknown(missing),
        "bandwidth_share": unknown(missing),
        "bound": unknown(missing),
    }
    if flops is None or moved is None:
        return rates
    if moved:
        rates["intensity"] = flops / moved
    if ceiling is not None and us:
        level, gbps = bandwidth(ceiling, moved / len(own))
        compute_s, moving_s = flops / ceiling["tflops"] / 1e12, moved / gbps / 1e9
        rates["compute_share"], rates["bandwidth_share"] = compute_s / us * 1e6, moving_s / us * 1e6
        if compute_s or moving_s:
            rates["bound"] = "compute" if compute_s > moving_s else "cache" if level == "cache" else "memory"
        else:
            rates["bound"] = unknown(_NO_WORK)
    return rates


def _sum(values: Iterable[int | None]) -> int | None:
    known_values = [*values]
    return None if None in known_values else sum(each or 0 for each in known_values)
