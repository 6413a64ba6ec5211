"""A profile as a whole: ceilings, then each engine in a process of its own; complete after each of them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from kernels.ceilings.ceiling import ceiling_of, cost_s
from kernels.ceilings.kept import FILE, Kept, machine_of
from kernels.ceilings.source import Source
from kernels.measurement.case import Method
from kernels.measurement.device import Device
from kernels.measurement.other_work import taken, watching
from kernels.measurement.precisions import PRECISIONS
from kernels.measurement.progress import Progress, duration
from servemark.errors import ServemarkError
from servemark.frameworks.installed import distribution_of
from servemark.machine.own_process import Ended, OwnProcess
from servemark.output import note
from servemark.profiling import traces
from servemark.profiling.document import engine_profile, failed
from servemark.profiling.engines import profilers
from servemark.profiling.measure import Measured, Order, measure
from servemark.profiling.memory import measure_memory
from servemark.repository.entry import FULL
from servemark.results import directory as results
from servemark.results.schema.header import opening
from servemark.results.schema.kernels import Ceiling
from servemark.results.schema.profile import Profile, ProfiledMemory
from servemark.runs.entries import export_where_needed
from servemark.stats.unknown import explained, or_unknown, unknown
from servemark.workload import get
from servers.engines import engine_module

LOAD_S, MEMORY_S = 10.0, 8.0
"""Time to import an engine and load a model, for each profile and each figure of memory (s); most take less."""
_LEFT_OUT = "the time was over: raise --budget"
ERRORS = (Ended, ServemarkError, RuntimeError, ValueError, KeyError, AssertionError, MemoryError, OSError)
"""Of engines, that are a word in the document."""
T = TypeVar("T")


@dataclass
class Profiles:
    """Engines to be profiled, and those that have been."""

    orders: Sequence[Order]
    batches: Sequence[int]
    document: Profile
    folder: Path
    deadline_s: float
    measured: dict[str, Measured]

    def left_s(self) -> float:
        """Seconds until the time is over. Raises Ended then."""
        left = self.deadline_s - time.monotonic()
        if left <= 0:
            raise Ended(_LEFT_OUT)
        return left

    def tell(self, key: str, value: object) -> None:
        """Give the document a figure that was not known before, or why it is not known now."""
        kept = {name: each for name, each in self.document.items() if name != f"{key}_reason"}
        made: Any = explained(lambda: {**kept, key: value})()
        self.document = made

    def write(self) -> None:
        """Write the document and the traces so far."""
        results.write(self.folder, self.document)
        traces.write(self.folder, self.measured)


def installed(device: str) -> list[str]:
    """The engines that can be profiled on a device here."""
    names = [name for name in profilers() if (name == "tensorrt") == (device != "cpu")]
    return [name for name in names if distribution_of(engine_module(name).PACKAGE)]


def planned_s(orders: Sequence[Order], batches: Sequence[int], ceilings_s: float) -> float:
    """Seconds that it takes, exports left out."""
    return ceilings_s + len(orders) * (LOAD_S + orders[0].rounds_s + len(batches) * MEMORY_S)


def profile(
    orders: Sequence[Order], batches: Sequence[int], out: Path, *, ceilings: bool, budget_s: float
) -> tuple[Path, Profile]:
    """Profile the engines of these orders, which differ in nothing else. Raises OptionError.

    Ctrl-C raises KeyboardInterrupt; what there is by then lies in the folder, marked partial.
    """
    begun = time.monotonic()
    first = orders[0]
    for batch in {first.batch_size, *batches}:
        replace(first, batch_size=batch).inputs()  # before anything is begun
    device = Device.named(first.device)
    document = begin(first)
    kept = Kept(out.absolute() / FILE, machine_of(device, document["environment"]))
    precision = first.precision if first.precision in PRECISIONS else FULL
    ceilings_s = cost_s(precision, device, kept, first=True) if ceilings else 0.0
    note(f"{', '.join(each.engine for each in orders)}: about {duration(planned_s(orders, batches, ceilings_s))}")
    folder = results.new_directory(out, f"profile-{first.workload}")
    found = Profiles(orders, batches, document, folder, begun + budget_s, {})
    watch = watching()
    try:
        found.write()
        if ceilings:
            ceiling, found.document["ceiling_left_out"] = ceilings_of(device, kept, precision)
            if ceiling is not None:
                found.tell("ceiling", ceiling)
            found.write()
        for order in orders:
            _profile_engine(found, order)
            found.document["spent_s"] = time.monotonic() - begun
            found.write()
        found.document["partial"] = _LEFT_OUT in str(found.document["engines"])
    finally:
        found.tell("other_cpu_share", taken(watch))
        found.write()
    return folder, found.document


@explained
def begin(order: Order) -> Profile:
    """The document before anything has been measured."""
    flops = get(order.workload).flops
    return {
        **opening(),
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
        "spent_s": 0.0,
        "partial": True,
    }


def ceilings_of(device: Device, kept: Kept, precision: str) -> tuple[Ceiling | None, list[str]]:
    """Measure the ceilings of a device where they are not kept; what was left out of them, with the reasons."""
    with OwnProcess() as process:
        progress = Progress(cost_s(precision, device, kept, first=True))
        source = Source(process, Method(device), kept, precision, progress)
        return ceiling_of(source), source.left_out


def _profile_engine(found: Profiles, order: Order) -> None:
    """Give the document one engine: its inference, then its memory; a failure is a word in it."""
    try:
        found.left_s()
        export_where_needed([order.workload], order.engine, order.repository, order.precision)
        note(f"{order.engine}: one inference, with and without its profiler in turns")
        measured = apart(measure, order, timeout_s=found.left_s())
    except ERRORS as error:
        reason = words(error)
        note(f"{order.engine}: {reason}")
        found.document["engines"].append(failed(order.engine, reason))
        return
    found.measured[order.engine] = measured
    memory: list[ProfiledMemory] = []
    found.document["engines"].append(engine_profile(order.engine, measured, found.document["ceiling"]))
    for batch in found.batches:
        try:
            note(f"{order.engine}: memory at batch {batch}")
            order_of_batch = replace(order, batch_size=batch)
            memory.append(apart(measure_memory, order_of_batch, timeout_s=found.left_s()))
        except ERRORS as error:
            note(f"{order.engine}: no memory at batch {batch}: {words(error)}")
        found.document["engines"][-1]["memory"] = memory


def apart(measure: Callable[..., T], *arguments: object, timeout_s: float) -> T:
    """Measure in a process of its own, which ends with it."""
    with OwnProcess() as process:
        return process.run(measure, *arguments, timeout_s=timeout_s)


def words(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return (str(error).strip().partition("\n")[0] or type(error).__name__)[:300]
