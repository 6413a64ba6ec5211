"""A profile as a whole: ceilings, then each engine in a process of its own, with its memory; and traces for viewers."""

import functools
import importlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from kernels.ceilings.ceiling import ceiling_of, cost_s
from kernels.ceilings.kept import FILE, Kept, Source, machine_of
from kernels.measurement.case import Method
from kernels.measurement.device import PRECISIONS, Device
from kernels.measurement.sensors import taken, watching
from servemark import __version__
from servemark.campaign import GOES_ON, Campaign, Progress
from servemark.documents.commands.understand import Profile as Asked
from servemark.errors import OptionError, ServerError
from servemark.frameworks import distribution_of
from servemark.frameworks.tensorflow import import_tensorflow
from servemark.machine.own_process import ERRORS, Ended, OwnProcess, apart, words
from servemark.output import note
from servemark.paths import resumed
from servemark.profiling.document import engine_profile, failed
from servemark.profiling.engines import kind_of, profiler_module, profilers
from servemark.profiling.measure import Measured, Order, measure
from servemark.profiling.operators import category_of
from servemark.profiling.timeline import Event, Inference, parts_of
from servemark.quantities import duration_text
from servemark.repository.entry import FULL
from servemark.repository.model_config import Settings
from servemark.results import directory as results
from servemark.results.directory import write_atomically
from servemark.results.schema.header import campaign_opening
from servemark.results.schema.kernels import Ceiling
from servemark.results.schema.profile import MemoryPart, Profile, ProfiledMemory
from servemark.runs.server import export_where_needed
from servemark.stats.unknown import explained, or_unknown, unknown
from servemark.workload import get
from servers.engines import engine_module

INFERENCES = 2
"""The first one allocates; the second shows that it was all."""
_STATUS = Path("/proc/self/status")
_KIB = 1024
SPEEDSCOPE, CHROME = "profile.speedscope.json", "profile.trace.json"
_BETWEEN = "between operators"
T = TypeVar("T")
LOAD_S, MEMORY_S = 10.0, 8.0
"""Time to import an engine and load a model, for each profile and each figure of memory (s); most take less."""
_DEVICES = {"cpu": "a CPU", "cuda": "a GPU"}
_LEFT_OUT = "the time was over: raise --budget"


def measure_memory(order: Order) -> ProfiledMemory:
    """Load and answer in this process, which has done neither yet. Raises what the engine raises, ServerError."""
    from servers.engines import load_model

    inputs, entry = order.inputs(), order.entry
    entry.require()
    model = Settings().in_json(entry.read_config())
    module = engine_module(order.engine)
    _forget_peak()
    start = _mib("VmRSS")
    if order.engine == "tensorflow":
        import_tensorflow()
    else:
        importlib.import_module(module.PACKAGE)
    imported = _mib("VmRSS")
    engine = load_model(model, entry.version, order.device)
    loaded = _mib("VmRSS")
    for _ in range(INFERENCES):
        engine.run(inputs)
    answered, peak = _mib("VmRSS"), _mib("VmHWM")
    artifact = sum(file.stat().st_size for file in entry.version.rglob("*") if file.is_file()) / _KIB**2
    return {
        "batch_size": order.batch_size,
        "start_mib": start,
        "imported_mib": imported,
        "loaded_mib": loaded,
        "answered_mib": answered,
        "peak_mib": peak,
        "artifact_mib": artifact,
        "parts": parts(start, imported, loaded, answered, artifact),
    }


def parts(start: float, imported: float, loaded: float, answered: float, artifact: float) -> list[MemoryPart]:
    """Split the growth up to the answers. Weights are as large as the file: loading holds them once, the rest is named.

    An engine that maps its file holds them as it answers, so that loading grows by less than the file.
    """
    loading, answering = loaded - imported, answered - loaded
    weights = min(artifact, max(loading, 0.0) + max(answering, 0.0))
    late = max(weights - max(loading, 0.0), 0.0)
    found = {
        "engine's libraries": imported - start,
        "weights": weights,
        "loading beyond the weights": loading - (weights - late),
        "activations and workspace": answering - late,
    }
    return [{"part": name, "mib": mib} for name, mib in found.items()]


def _forget_peak() -> None:
    """Begin the peak anew (proc(5), clear_refs). Raises ServerError."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        raise ServerError(
            f"the peak of memory cannot be read: {error}", fix="--batches none leaves memory out"
        ) from error


def _mib(key: str) -> float:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{key}:"))
    return int(line.split()[1]) / _KIB


def write_traces(folder: Path, measured: Mapping[str, Measured]) -> None:
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
    parts = parts_of(inference)
    stacks = [*(stack_of(part.event, part.phase) for part in parts), [_BETWEEN]]
    weights = [part.us for part in parts]
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


def refusal(engine: str, device: str) -> OptionError | None:
    """Say why an engine cannot be profiled on a device here. None: its profiler can, and its package is installed."""
    own = profiler_module(engine).PROFILERS
    if (kind := kind_of(device)) not in own:
        others = [name for name in profilers() if kind in profiler_module(name).PROFILERS]
        return OptionError(
            f"{engine} is profiled on {' and '.join(_DEVICES[each] for each in own)} only, {device} was asked for",
            fix=f"--device {'cpu' if 'cpu' in own else 'cuda:0'}, or for {device} one of {', '.join(others)}",
        )
    package = engine_module(engine).PACKAGE
    if distribution_of(package) is None:
        from exporters import exporter

        return OptionError(
            f"{engine} cannot be profiled: its package {package} is not installed",
            fix=f"pip install -e '.[{exporter(engine).EXTRA}]'",
        )
    return None


def installed(device: str) -> list[str]:
    """List the engines that can be profiled on a device here. Raises OptionError where none can."""
    refused = {name: refusal(name, device) for name in profilers()}
    found = [name for name, reason in refused.items() if reason is None]
    if not found:
        raise OptionError(f"no engine that can be profiled on {device} is installed", fix="servemark doctor shows them")
    return found


def profile(options: Asked, engines: Sequence[str]) -> tuple[Path, Profile]:
    """Profile the engines, or what the folder to resume lacks of them.

    Ctrl-C raises KeyboardInterrupt; what there is by then lies in the folder, marked partial. Raises OptionError.
    """
    deadline_s, batches, ceilings = time.monotonic() + options.budget_s, options.memory_batches, not options.no_ceilings
    orders = [
        Order(options.workload, name, options.model_repository, options.batch_size, options.precision, options.device)
        for name in engines
    ]
    first = orders[0]
    for batch in {first.batch_size, *batches}:
        replace(first, batch_size=batch).inputs()  # before anything is begun
    device = Device.named(first.device)
    document = begin(first)
    folder = resumed(options.resume) or results.new_directory(options.out, f"profile-{first.workload}")
    kept = Kept(folder.absolute().parent / FILE, machine_of(device, document["environment"]))
    precision = first.precision if first.precision in PRECISIONS else FULL
    ceilings_s = cost_s(precision, device, kept, first=True) if ceilings else 0.0
    planned_s = ceilings_s + len(orders) * (LOAD_S + first.rounds_s + len(batches) * MEMORY_S)  # exports left out
    note(f"{', '.join(engines)}: about {duration_text(planned_s)}")
    watch, measured, late = watching(), dict[str, Measured](), False

    def write(partial: str | None) -> None:
        campaign.mark(document, partial or (_LEFT_OUT if late else None))
        tell(document, other_cpu_share=taken(watch))
        results.write(folder, document)
        write_traces(folder, measured)

    asked = {**document, "engines": [*engines], "batches": batches}
    with Campaign(folder, asked, write, resume=bool(options.resume)) as campaign:
        if ceilings:
            ceiling, document["ceiling_left_out"] = ceilings_of(device, kept, precision)
            if ceiling is not None:
                tell(document, ceiling=ceiling)
        for order in orders:
            late |= not _profile_engine(campaign, document, measured, order, batches, deadline_s)
            write(GOES_ON)
    return folder, document


def tell(group: Any, **figures: object) -> None:
    """Give a group figures that were not known before, or the reasons why they are not known now."""
    for key in figures:
        group.pop(f"{key}_reason", None)
    group.update(explained(lambda: figures)())


@explained
def begin(order: Order) -> Profile:
    """The document before anything has been measured."""
    flops = get(order.workload).flops
    return {
        **campaign_opening(),
        "kind": "profile",
        "workload": order.workload,
        "precision": order.precision,
        "device": order.device,
        "batch_size": order.batch_size,
        "flops_expected": or_unknown(flops and flops * order.batch_size, "the workload does not tell its FLOPs"),
        "ceiling": unknown("the ceilings were not measured"),
        "ceiling_left_out": [],
        "other_cpu_share": unknown("it is known at the end"),
        "engines": [],
    }


def ceilings_of(device: Device, kept: Kept, precision: str) -> tuple[Ceiling | None, list[str]]:
    """Measure the ceilings of a device where they are not kept; what was left out of them, with the reasons."""
    with OwnProcess() as process:
        progress = Progress(cost_s(precision, device, kept, first=True))
        source = Source(process, Method(device), kept, precision, progress)
        return ceiling_of(source), source.left_out


def _profile_engine(
    campaign: Campaign,
    document: Profile,
    measured: dict[str, Measured],
    order: Order,
    batches: Sequence[int],
    deadline_s: float,
) -> bool:
    """Give the document one engine: its inference, then its memory; a failure is a word in it.

    False: the time was over before the end.
    """
    engine, in_budget = order.engine, True

    def reason(error: Exception) -> str:
        nonlocal in_budget
        in_budget &= time.monotonic() < deadline_s
        return words(error)

    def in_time(measure: Callable[[Order], T], order: Order) -> T:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise Ended(_LEFT_OUT)
        export_where_needed([order.workload], engine, order.repository, order.precision)
        return apart(measure, order, timeout_s=left_s)

    try:
        note(f"{engine}: one inference, with and without its profiler in turns")
        measured[engine] = campaign.turn(engine, functools.partial(in_time, measure, order), Measured)
    except ERRORS as error:
        document["engines"].append(failed(engine, reason(error)))
        note(f"{engine}: {words(error)}")
        return in_budget
    found = engine_profile(engine, measured[engine], document["ceiling"])
    document["engines"].append(found)
    for batch in batches:
        name = f"{engine}: memory at batch {batch}"
        try:
            note(name)
            make = functools.partial(in_time, measure_memory, replace(order, batch_size=batch))
            found["memory"].append(campaign.turn(name, make, ProfiledMemory))
        except ERRORS as error:
            found["memory_left_out"].append({"batch_size": batch, "reason": reason(error)})
            note(f"{name}: none, {words(error)}")
    return in_budget
