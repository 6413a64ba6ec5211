"""A suite characterised, unattended: each workload on each engine, then fresh server starts in interleaved rounds.

The document is complete after each step. A step that fails is a reason in it, and going on tries it again.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kernels.ceilings.kept import FILE, Kept, machine_of
from kernels.measurement.device import Device
from kernels.measurement.other_work import taken, watching
from servemark.characterise.analysis import analyse, failure_of, first_engine
from servemark.characterise.measure import ENGINE_S, measure_batches
from servemark.characterise.statistics import require_package
from servemark.compare.interleaved.contenders import Contender, parse_contenders
from servemark.documents.commands.understand import Characterise
from servemark.errors import OptionError
from servemark.figures.registry import value_of, why_unknown
from servemark.output import note
from servemark.profiling.document import engine_profile, failed
from servemark.profiling.engines import profilers
from servemark.profiling.measure import Order
from servemark.profiling.run import ERRORS, apart, ceilings_of, installed, words
from servemark.quantities import duration_text, figure, one_of, text_of, whole
from servemark.repository.entry import FULL, Entry
from servemark.results import directory as results
from servemark.results.kinds import conformed
from servemark.results.schema.characterisation import (
    Characterisation,
    CharacterisedWorkload,
    OnEngine,
    Start,
    TimedBatch,
)
from servemark.results.schema.header import opening
from servemark.results.schema.profile import EngineProfile
from servemark.results.schema.run import Result
from servemark.runs import suite
from servemark.runs.entries import export_where_needed
from servemark.runs.suite_plan import members
from servemark.stats.unknown import explained, or_unknown, unknown, unknown_group
from servemark.workload import get

STEP_S = 900.0
"""Longest time of a workload on an engine (s)."""
START_S = 8.0
"""About how long a fresh server takes beside its measured seconds (s)."""


def begin(name: str, options: Characterise) -> Characterisation:
    """Return the document before anything has been measured. Raises OptionError, ServemarkError."""
    require_package()
    # The smallest first: a run that is interrupted has most of them.
    chosen = {workload.name: workload for workload in sorted(members(name), key=lambda each: each.flops or 0)}
    for each in options.only:
        one_of(f"{name}'s workload", each, chosen)
    contenders = contenders_of(options)
    batches = [] if options.batches == "none" else [whole("--batches", each, 2) for each in options.batches.split(",")]
    rows: list[CharacterisedWorkload] = [
        _row(workload.name) for workload in chosen.values() if workload.name in (options.only or chosen)
    ]
    if options.size >= len(rows):
        raise OptionError(
            f"--size {options.size} of {len(rows)} workloads leaves none to be predicted", fix="give a smaller --size"
        )
    return _begun(name, options, contenders, batches, rows)


def contenders_of(options: Characterise) -> list[Contender]:
    """Return the engines with their precisions. Raises OptionError."""
    found = installed(options.device)
    contenders = parse_contenders(options.engines or ",".join(found), FULL)
    for each in contenders:
        one_of("--engines", each.engine, profilers())
        if each.engine not in found:
            raise OptionError(
                f"{each.engine} is not installed for {options.device}", fix="servemark doctor shows what is"
            )
        if each.configured:
            raise OptionError(f"--engines {each.label} has options", fix="name engines and precisions alone")
    return contenders


@explained
def _begun(
    name: str,
    options: Characterise,
    contenders: Sequence[Contender],
    batches: list[int],
    rows: list[CharacterisedWorkload],
) -> Characterisation:
    early = "it is known at the end"
    return {
        **opening(),
        "kind": "characterisation",
        "suite": name,
        "device": options.device,
        "engines": [each.label for each in contenders],
        "batches": [1, *batches],
        "duration_s": options.duration_s,
        "starts": options.starts,
        "size": options.size,
        "seeds": options.seeds,
        "ceiling": unknown("the ceilings were not measured"),
        "rows": rows,
        "analysis": unknown(early),
        "prediction": unknown(early),
        "spent_s": 0.0,
        "partial": True,
    }


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

    def __init__(self, document: Characterisation, folder: Path, repository: Path) -> None:
        self.document, self._folder, self._repository = document, folder, repository
        self._contenders = parse_contenders(",".join(document["engines"]), FULL)

    def run(self, *, ceilings: bool) -> None:
        """Do what is not done yet. Raises KeyboardInterrupt; what there is by then is analysed and written."""
        document, before_s, begun = self.document, self.document["spent_s"], time.monotonic()
        document["partial"] = True
        steps = [*self._lacking()]
        about_s = sum(ENGINE_S if contender else START_S + document["duration_s"] for _, contender in steps)
        note(
            f"{len(document['rows'])} workloads, {len(steps)} steps that are not done yet: "
            f"about {duration_text(about_s)}, missing exports on top"
        )
        try:
            if ceilings and steps and document["ceiling"] is None:
                self._measure_ceiling()
            for number, (row, contender) in enumerate(steps, start=1):
                what = contender.label if contender else f"server start {len(row['starts']) + 1}"
                found = self._step(row, contender)
                spent_s = time.monotonic() - begun
                left = duration_text(spent_s / number * (len(steps) - number))
                note(f"[{number}/{len(steps)}] {row['workload']}, {what}: {found} (about {left} left)")
                document["spent_s"] = before_s + spent_s
                self.write()
            document["partial"] = False
        finally:
            analysis, prediction = analyse(document)
            _tell(document, analysis=analysis, prediction=prediction)
            self.write()

    def write(self) -> None:
        """Write the document so far."""
        results.write(self._folder, self.document)

    def _lacking(self) -> Iterator[tuple[CharacterisedWorkload, Contender | None]]:
        """Steps that are not done, a failed one among them: engines of each workload, then rounds of server starts."""
        rows = self.document["rows"]
        for row in rows:
            row["engines"] = [each for each in row["engines"] if failure_of(each) is None]
            row["starts"] = [each for each in row["starts"] if not each["failure"]]
            done = {each["engine"] for each in row["engines"]}
            yield from ((row, each) for each in self._contenders if each.label not in done)
        for number in range(self.document["starts"]):
            yield from ((row, None) for row in rows if len(row["starts"]) <= number)

    def _step(self, row: CharacterisedWorkload, contender: Contender | None) -> str:
        """Take a step; what came of it, in a few words."""
        if contender is None:
            if first_engine(row) is None:
                return "left out: it failed on the first engine"
            start = self._start(row["workload"])
            row["starts"].append(start)
            return start["failure"] or f"{figure(start['inferences_per_s'])} inferences/s"
        on = self._on_engine(row, contender)
        row["engines"] = sorted([*row["engines"], on], key=lambda each: self.document["engines"].index(each["engine"]))
        return failure_of(on) or f"{figure(on['batches'][0]['ms'])} ms"

    def _on_engine(self, row: CharacterisedWorkload, contender: Contender) -> OnEngine:
        """Measure a workload on an engine; a failure is a word in it."""
        document, name = self.document, row["workload"]
        order = Order(
            name,
            contender.engine,
            self._repository,
            precision=contender.precision,
            device=document["device"],
            rounds_s=document["duration_s"],
        )
        begun, watch = time.monotonic(), watching()
        batches: list[TimedBatch] = []
        try:
            export_where_needed([name], contender.engine, self._repository, contender.precision)
            if contender.label == document["engines"][0]:
                _tell(row, export_s=_export_s(order.entry))
            begun, watch = time.monotonic(), watching()
            sizes = [each for each in document["batches"][1:] if each <= get(name).max_batch]
            timed = apart(measure_batches, order, sizes, timeout_s=STEP_S)
            found, batches = engine_profile(contender.engine, timed.profile, document["ceiling"]), timed.batches
        except ERRORS as error:
            found = failed(contender.engine, words(error))
        return _on_engine(contender.label, found, batches, taken(watch), time.monotonic() - begun)

    def _start(self, name: str) -> Start:
        """Load the first engine on a server of its own, in a process of its own."""
        contender, document = self._contenders[0], self.document
        begun = time.monotonic()
        asked = ["run", name, "--engine", contender.engine, "--precision", contender.precision, "--json"]
        asked += ["--concurrency", "1", "--duration", text_of(document["duration_s"]), "--warmup", "0.5"]
        asked += ["--request-timeout", f"{suite.REQUEST_TIMEOUT_S}", "--model-repository", str(self._repository)]
        asked += ["--device", document["device"], "--out", str(self._folder / "starts")]
        ran, failure = suite.command(asked, suite.RUN_TIMEOUT_S)
        spent_s = time.monotonic() - begun
        if ran is None or ran["figures"] is None:
            return _started(None, spent_s, failure or "it measured nothing")
        return _started(conformed(ran, Result), spent_s, "")

    def _measure_ceiling(self) -> None:
        document = self.document
        device = Device.named(document["device"])
        kept = Kept(self._folder.parent / FILE, machine_of(device, document["environment"]))
        found, _ = ceilings_of(device, kept, FULL)
        if found is not None:
            _tell(document, ceiling=found)


def _tell(group: Any, **figures: object) -> None:
    """Give a group figures that were not known before, or the reasons why they are not known now."""
    for key in figures:
        group.pop(f"{key}_reason", None)
    group.update(explained(lambda: figures)())


def _export_s(entry: Entry) -> float | None:
    manifest = entry.read_manifest() or {}
    return or_unknown(manifest.get("seconds"), "the export does not tell how long it took")


@explained
def _on_engine(
    label: str, found: EngineProfile, batches: list[TimedBatch], others: float | None, spent_s: float
) -> OnEngine:
    profile: EngineProfile = {**found, "layers": [], "memory": []}
    return {
        "engine": label,
        "profile": profile,
        "batches": batches,
        "other_cpu_share": others,
        "spent_s": spent_s,
    }


@explained
def _started(result: Result | None, spent_s: float, failure: str) -> Start:
    if result is None:
        return {**unknown_group(Start, failure), "spent_s": spent_s, "failure": failure}

    def known(tag: str) -> float | None:
        return or_unknown(value_of(result, tag), why_unknown(result, tag))

    return {
        "p50_ms": known("latency.p50"),
        "p99_ms": known("latency.p99"),
        "inferences_per_s": known("throughput.inferences"),
        "joules_per_inference": known("energy.per_inference"),
        "spent_s": spent_s,
        "failure": None,
    }
