"""The inferences as files for other viewers: speedscope's format, and the Trace Event Format of Chrome and Perfetto."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servemark import __version__
from servemark.profiling.categories import category_of
from servemark.profiling.measure import Measured
from servemark.profiling.timeline import Event, Inference, phases, wall_us
from servemark.results.directory import write_atomically

SPEEDSCOPE, CHROME = "profile.speedscope.json", "profile.trace.json"
_BETWEEN = "between operators"


def write(folder: Path, measured: Mapping[str, Measured]) -> None:
    """Write both files; none where nothing was measured. Raises ResultError."""
    if measured:
        inferences = {engine: each.inference for engine, each in measured.items()}
        for name, document in ((SPEEDSCOPE, speedscope(inferences)), (CHROME, chrome(inferences))):
            write_atomically(folder / name, json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n")


def stack_of(event: Event, phase: str) -> list[str]:
    """The frames of an event, outermost first: phase, modules, layer with its operator."""
    names = event.module.split(".") if event.module else []
    modules = [".".join(names[: number + 1]) for number in range(len(names))]
    frames = [frame for frame in (phase, *modules) if frame != "no module"]
    return [*dict.fromkeys(frames), f"{event.name} ({event.operator})"]


def speedscope(inferences: Mapping[str, Inference]) -> dict[str, Any]:
    """A sampled profile for each engine, whose samples are the operators and whose weights their times (us).

    Source: speedscope's src/lib/file-format-spec.ts.
    """
    frames: dict[str, int] = {}
    profiles = [_sampled(engine, inference, frames) for engine, inference in inferences.items()]
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"servemark {__version__}",
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }


def _sampled(engine: str, inference: Inference, frames: dict[str, int]) -> dict[str, Any]:
    times, events = wall_us(inference), inference.events
    named: Sequence[str] = phases(events)
    order = sorted(range(len(events)), key=lambda number: events[number].start_us)
    stacks = [*(stack_of(events[number], named[number]) for number in order), [_BETWEEN]]
    weights = [times[number] for number in order]
    whole_us = max(inference.seconds * 1e6, sum(weights))
    return {
        "type": "sampled",
        "name": engine,
        "unit": "microseconds",
        "startValue": 0,
        "endValue": whole_us,
        "samples": [[frames.setdefault(frame, len(frames)) for frame in stack] for stack in stacks],
        "weights": [*weights, whole_us - sum(weights)],
    }


def chrome(inferences: Mapping[str, Inference]) -> dict[str, Any]:
    """Complete events, a process for each engine (Trace Event Format, Google)."""
    events: list[dict[str, Any]] = []
    for number, (engine, inference) in enumerate(inferences.items(), 1):
        events.append({"ph": "M", "pid": number, "name": "process_name", "args": {"name": engine}})
        whole = {"ph": "X", "pid": number, "tid": 0, "ts": 0, "dur": inference.seconds * 1e6}
        events.append({**whole, "name": "inference", "cat": "inference"})
        threads = {thread: place for place, thread in enumerate(sorted({e.thread for e in inference.events}), 1)}
        events += [
            {
                "ph": "X",
                "pid": number,
                "tid": threads[event.thread],
                "ts": event.start_us,
                "dur": event.duration_us,
                "name": event.name,
                "cat": category_of(event.operator),
                "args": {
                    "operator": event.operator,
                    "module": event.module,
                    "flops": event.flops,
                    "bytes": event.bytes,
                },
            }
            for event in inference.events
        ]
    return {"displayTimeUnit": "ms", "traceEvents": events}
