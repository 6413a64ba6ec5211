"""A suite characterised, unattended: each workload on each engine, then fresh server starts in interleaved rounds.

The document is complete after each step. A step that fails is a reason in it, and going on tries it again.
"""

import functools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from kernels.ceilings.kept import FILE, Kept, machine_of
from kernels.measurement.device import Device
from kernels.measurement.sensors import taken, watching
from servemark.campaign import GOES_ON, Campaign, Turn
from servemark.characterise.analysis import analyse, failure_of, first_engine, require_package
from servemark.characterise.tables import every
from servemark.compare.interleaved.contenders import Contender, parse_contenders
from servemark.documents.commands.understand import Characterise
from servemark.documents.load import ClosedLoop
from servemark.errors import OptionError
from servemark.figures.registry import value_of, why_unknown
from servemark.machine.own_process import ERRORS, apart, words
from servemark.output import note
from servemark.profiling.document import engine_profile, failed
from servemark.profiling.engines import loaded, profilers
from servemark.profiling.measure import Measured, Order, measure
from servemark.profiling.run import ceilings_of, installed, refusal, tell
from servemark.quantities import duration_text, figure, one_of, whole
from servemark.repository.entry import FULL
from servemark.results import directory as results
from servemark.results.schema.header import campaign_opening
from servemark.results.schema.profile import EngineProfile
from servemark.results.schema.suite import (
    Characterisation,
    CharacterisedWorkload,
    OnEngine,
    Start,
    TimedBatch,
)
from servemark.runs.server import export_where_needed
from servemark.runs.suite import chosen, load_apart
from servemark.stats.unknown import explained, or_unknown, unknown, unknown_group
from servemark.workload import Arrays, get

ENGINE_S = 20.0
"""About how long a workload takes on an engine, with one larger batch (s); AIBench's took 17 on average."""
LONGEST_S = 40.0
"""Longest time that a batch may take by the time of one sample; a larger one is left out."""
FEWEST, MOST = 3, 200
"""Rounds of a batch, after one that does not count."""
STEP_S = 900.0
"""Longest time of a workload on an engine (s)."""
START_S = 8.0
"""About how long a fresh server takes beside its measured seconds (s)."""
START_WARMUP_S = 0.5
T = TypeVar("T")


@dataclass(frozen=True)
class Timed:
    """The profile of one sample, and the times of all batches."""

    profile: Measured
    batches: list[TimedBatch]


def measure_batches(order: Order, batches: Sequence[int]) -> Timed:
    """Profile one sample and time the batches. Raises what the engine raises where it cannot be loaded, OptionError."""
    measured = measure(replace(order, batch_size=1))
    alone_ms = measured.cost["plain_ms"]
    found: list[TimedBatch] = [{"batch_size": 1, "ms": alone_ms, "rounds": measured.cost["rounds"]}]
    if batches:
        engine = loaded(order.entry, order.device)
        found += [_timed(engine.run, replace(order, batch_size=batch), alone_ms) for batch in batches]
    return Timed(measured, found)


def timed_apart(order: Order, batches: Sequence[int]) -> Timed:
    """Do that in a process of its own, for the batches that the workload takes. Raises `own_process.ERRORS`."""
    sizes = [each for each in batches if each <= get(order.workload).max_batch]
    return apart(measure_batches, order, sizes, timeout_s=STEP_S)


def batches_beside_one(text: str) -> list[int]:
    """Read --batches. Raises OptionError."""
    return [] if text == "none" else [whole("--batches", each, 2) for each in text.split(",")]


@explained
def _timed(run: Callable[[Arrays], Arrays], order: Order, alone_ms: float) -> TimedBatch:
    batch = order.batch_size
    expected_s = alone_ms * batch * (1 + FEWEST) / 1e3
    if expected_s > LONGEST_S:
        reason = f"it would take {expected_s:.0f} s by the time of one sample"
        return {"batch_size": batch, "ms": unknown(reason), "rounds": 0}
    try:
        inputs = order.inputs()
        run(inputs)
        times: list[float] = []
        begun = time.perf_counter()
        while len(times) < FEWEST or (len(times) < MOST and time.perf_counter() - begun < order.rounds_s):
            start = time.perf_counter()
            run(inputs)
            times.append(time.perf_counter() - start)
    except Exception as error:  # whatever the engine raises
        return {"batch_size": batch, "ms": unknown(words(error)), "rounds": 0}
    return {"batch_size": batch, "ms": statistics.median(times) * 1e3, "rounds": len(times)}


@explained
def begin(name: str, options: Characterise) -> Characterisation:
    """Return the document before anything has been measured. Raises OptionError, ServemarkError."""
    require_package()
    # The smallest first: a run that is interrupted has most of them.
    workloads = sorted(chosen(name, options.only), key=lambda each: each.flops or 0)
    contenders = contenders_of(options)
    rows: list[CharacterisedWorkload] = [_row(workload.name) for workload in workloads]
    if options.size >= len(rows):
        raise OptionError(
            f"--size {options.size} of {len(rows)} workloads leaves none to be predicted", fix="give a smaller --size"
        )
    early = "it is known at the end"
    return {
        **campaign_opening(),
        "kind": "characterisation",
        "suite": name,
        "device": options.device,
        "engines": [each.label for each in contenders],
        "batches": [1, *batches_beside_one(options.batches)],
        "duration_s": options.duration_s,
        "starts": options.starts,
        "size": options.size,
        "seeds": options.seeds,
        "ceiling": unknown("the ceilings were not measured"),
        "rows": rows,
        "analysis": unknown(early),
        "prediction": unknown(early),
    }


def contenders_of(options: Characterise) -> list[Contender]:
    """Return the engines with their precisions. Raises OptionError."""
    contenders = parse_contenders(options.engines or ",".join(installed(options.device)), FULL)
    for each in contenders:
        one_of("--engines", each.engine, profilers())
        if error := refusal(each.engine, options.device):
            raise error
        if each.configured:
            raise OptionError(f"--engines {each.label} has options", fix="name engines and precisions alone")
    return contenders


@explained
def _row(name: str) -> CharacterisedWorkload:
    workload = get(name)
    return {
        "workload": name,
        "suites": [*workload.suites],
        "parameters": or_unknown(workload.parameters, "the workload does not tell its parameters"),
        "flops": or_unknown(workload.flops, "the workload does not tell its FLOPs"),
        "export_s": unknown("it has not been exported"),
        "engines": [],
        "starts": [],
    }


class Characterised:
    """A suite that is being characterised in a folder."""

    def __init__(self, document: Characterisation, folder: Path, repository: Path, *, resume: bool = False) -> None:
        """Begin, or go on with what the folder's journal has. Raises OptionError, ResultError."""
        self.document, self._folder, self._repository = document, folder, repository
        self._contenders = parse_contenders(",".join(document["engines"]), FULL)
        self._campaign = Campaign(folder, document, self._write, resume=resume)

    def run(self, *, ceilings: bool) -> None:
        """Do what is not done yet. Raises KeyboardInterrupt; what there is by then is analysed and written."""
        document = self.document
        with self._campaign as campaign:
            rows, starts = document["rows"], range(1, document["starts"] + 1)
            about_s = campaign.expect(
                [ENGINE_S] * len(rows) * len(self._contenders)
                + [START_S + document["duration_s"]] * len(rows) * len(starts)
            )
            note(f"{len(rows)} workloads: about {duration_text(about_s)}, missing exports on top")
            if ceilings:
                device = Device.named(document["device"])
                kept = Kept(self._folder.absolute().parent / FILE, machine_of(device, document["environment"]))
                found, _ = ceilings_of(device, kept, FULL)
                if found is not None:
                    tell(document, ceiling=found)
            for row in rows:
                engines = [self._turn(row, each.label, self._on_engine, each) for each in self._contenders]
                for _, on in campaign.turns(engines, OnEngine, _line, lasts=lambda each: failure_of(each) is None):
                    row["engines"].append(on)
                if row["engines"] and failure_of(row["engines"][0]) is None:
                    manifest = self._order(row, self._contenders[0]).entry.read_manifest() or {}
                    unsaid = "the export does not tell how long it took"
                    tell(row, export_s=or_unknown(manifest.get("seconds"), unsaid))
            # Fresh server starts in rounds, so that drift hits all workloads alike.
            for number in starts:
                ran = [row for row in rows if first_engine(row) is not None]
                turns = [self._turn(row, f"server start {number}", self._start) for row in ran]
                made = campaign.turns(turns, Start, _start_line, lasts=lambda each: each["failure"] is None)
                for (_, start), row in zip(made, ran, strict=True):
                    row["starts"].append(start)

    def _turn(self, row: CharacterisedWorkload, name: str, make: Callable[..., T], *more: Contender) -> Turn[T]:
        cost_s = ENGINE_S if more else START_S + self.document["duration_s"]
        return Turn(f"{row['workload']}, {name}", functools.partial(make, row, *more), cost_s)

    def _write(self, partial: str | None) -> None:
        document = self.document
        self._campaign.mark(document, partial)
        if partial != GOES_ON:
            analysis, prediction = analyse(document)
            tell(document, analysis=analysis, prediction=prediction)
            for table, data in every(document).items():
                results.write_atomically(self._folder / f"{table}.csv", data.to_csv())
        results.write(self._folder, document)

    def _order(self, row: CharacterisedWorkload, contender: Contender) -> Order:
        document = self.document
        return Order(
            row["workload"],
            contender.engine,
            self._repository,
            precision=contender.precision,
            device=document["device"],
            rounds_s=document["duration_s"],
        )

    @explained
    def _on_engine(self, row: CharacterisedWorkload, contender: Contender) -> OnEngine:
        """Measure a workload on an engine; a failure is a word in it."""
        document, name, order = self.document, row["workload"], self._order(row, contender)
        begun, watch = time.monotonic(), watching()
        batches: list[TimedBatch] = []
        try:
            export_where_needed([name], contender.engine, self._repository, contender.precision)
            begun, watch = time.monotonic(), watching()
            timed = timed_apart(order, document["batches"][1:])
            found, batches = engine_profile(contender.engine, timed.profile, document["ceiling"]), timed.batches
        except ERRORS as error:
            found = failed(contender.engine, words(error))
        profile: EngineProfile = {**found, "layers": [], "memory": []}
        return {
            "engine": contender.label,
            "profile": profile,
            "batches": batches,
            "other_cpu_share": taken(watch),
            "spent_s": time.monotonic() - begun,
        }

    @explained
    def _start(self, row: CharacterisedWorkload) -> Start:
        """Load the first engine on a server of its own, in a process of its own."""
        contender, document = self._contenders[0], self.document
        begun = time.monotonic()
        load = ClosedLoop(concurrency=1, duration_s=document["duration_s"], warmup=START_WARMUP_S)
        asked = {"engine": contender.engine, "precision": contender.precision, "device": document["device"]}
        try:
            result = load_apart(row["workload"], load, self._repository, self._folder / "starts", **asked)
        except ERRORS as error:
            failure = words(error)
            return {**unknown_group(Start, failure), "spent_s": time.monotonic() - begun, "failure": failure}

        def known(tag: str) -> float | None:
            return or_unknown(value_of(result, tag), why_unknown(result, tag))

        return {
            "p50_ms": known("latency.p50"),
            "p99_ms": known("latency.p99"),
            "inferences_per_s": known("throughput.inferences"),
            "joules_per_inference": known("energy.per_inference"),
            "spent_s": time.monotonic() - begun,
            "failure": None,
        }


def _line(on: OnEngine) -> str:
    return failure_of(on) or f"{figure(on['batches'][0]['ms'])} ms"


def _start_line(start: Start) -> str:
    return start["failure"] or f"{figure(start['inferences_per_s'])} inferences/s"
