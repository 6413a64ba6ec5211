"""A run of many cases: what it asks for, its ceilings, and how long it takes."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypedDict

import msgspec

from kernels.ceilings.ceiling import ceiling_of, cost_s, held_bytes
from kernels.ceilings.kept import FILE, Kept, Source, machine_of
from kernels.libraries import TORCH, version
from kernels.measurement.case import MIB, Case, Method, blank, refusal
from kernels.measurement.device import PRECISIONS, Device
from kernels.measurement.measure import measure
from kernels.measurement.sensors import busy_share, taken, watching
from servemark.campaign import ANEW, Campaign, Progress, Turn, asked_of
from servemark.errors import OptionError, ResultError
from servemark.machine.cpu_time import QUIET_SHARE
from servemark.machine.own_process import ERRORS, OwnProcess, words
from servemark.output import note
from servemark.quantities import duration_text
from servemark.results import directory as results
from servemark.results.schema.header import campaign_opening
from servemark.results.schema.kernels import Ceiling, KernelCase, KernelsDocument, Traced
from servemark.stats.unknown import explained, unknown

GRACE_S = 120.0
"""Time that a case may take beyond its limit (s): tensors are made, PyTorch is imported, an answer is checked."""

_NO_CACHES = "the system does not describe its caches"
START_S = 5.0
"""PyTorch's import, in the case process."""
FIXED_S = 2.0
"""Time of a case whatever its size (s)."""
CALLS = 10
"""Time of a large case, in calls."""
NOTHING_S = 0.001
SLOW_TFLOPS, SLOW_GBPS, SLOW_CALL_US = {"cpu": 0.03, "gpu": 5.0}, {"cpu": 5.0, "gpu": 300.0}, 10.0
"""A modest core, or GPU, as long as no ceiling is known."""
MAX_LIMIT_S = 86_400.0
MAX_BATCH = 1 << 20


@explained
def begin(
    suite: str, cases: Sequence[Case], method: Method, traced: Traced | None = None, *, published: bool = False
) -> KernelsDocument:
    """The document of a run that is to begin. Raises OptionError where the device lacks a precision, or all cases."""
    device = method.device
    for precision in dict.fromkeys(case.precision for case in cases):
        lack = device.lacks(precision)
        if lack:
            has = ", ".join(name for name in PRECISIONS if device.lacks(name) is None)
            raise OptionError(f"{device.name} has no {precision}: {lack}", fix=f"--precision is one of {has}")
    names = list(dict.fromkeys(case.library for case in cases))
    reasons = [refusal(case, device) for case in cases]
    if None not in reasons:
        fix = "use another --precision, --device or --suite; `servemark kernels --list` shows what there is"
        raise OptionError(f"{device.name} can run none of the {len(cases)} cases: {reasons[0]}", fix=fix)
    return {
        **campaign_opening(),
        "kind": "kernels",
        "suite": suite,
        "traced": traced,
        "families": list(dict.fromkeys(case.family for case in cases)),
        "device": method.device.name,
        "precisions": list(dict.fromkeys(case.precision for case in cases)),
        "cache": method.cache,
        "threads": method.device.cores,
        "busy_share": busy_share(),
        "cache_mib": device.cache_bytes / MIB if device.cache_reported else unknown(_NO_CACHES),
        "held_mib": None,
        "case_limit_s": method.limit_s,
        "library": ", ".join(f"{name} {version(name)}" for name in names),
        "libraries": names,
        "published": published,
        "ceilings": [],
        "ceilings_left_out": [],
        "cases": [],
        "planned": len(cases),
    }


def run(
    folder: Path,
    document: KernelsDocument,
    cases: Sequence[Case],
    method: Method,
    *,
    anew: bool = False,
    resume: bool = False,
) -> KernelsDocument:
    """Measure what the folder's journal lacks, and write the document to `result.json` after each case.

    Ceilings are kept beside the folder for the next run; `anew` measures them again. Raises KeyboardInterrupt, with
    what has been measured in the files, OptionError, ResultError.
    """

    def write(partial: str | None) -> None:
        campaign.mark(document, partial)
        if document["traced"]:
            document["traced"] = _summed(document["traced"], document["cases"])
        results.write(folder, document)

    with Campaign(folder, document, write, resume=resume) as campaign, OwnProcess() as process:
        _measure_ceilings(campaign, process, document, cases, method, anew=anew)
        bandwidths = document["ceilings"][0]["bandwidths"] if document["ceilings"] else []
        if not method.device.is_gpu:
            held = held_bytes(bandwidths, method.device.cache_bytes)
            document["held_mib"] = held / MIB if bandwidths else None
            method = replace(method, device=replace(method.device, cache_bytes=held))
        turns = []
        for case in cases:
            ceiling = next((each for each in document["ceilings"] if each["precision"] == case.precision), None)
            make = functools.partial(_case, process, case, method, ceiling)
            turns.append(Turn(str(case), make, case_cost_s(case, ceiling, method)))
        campaign.expect(turn.cost_s for turn in turns)
        for _, found in campaign.turns(turns, KernelCase, line):
            document["cases"].append(found)
    return document


def _measure_ceilings(
    campaign: Campaign,
    process: OwnProcess,
    document: KernelsDocument,
    cases: Sequence[Case],
    method: Method,
    *,
    anew: bool,
) -> None:
    """Give the document the ceilings of each precision in which a case can run, and say how long all of it takes."""
    able = {case.precision for case in cases if refusal(case, method.device) is None}
    precisions = [each for each in document["precisions"] if each in able]
    file = campaign.folder.absolute().parent / FILE
    kept = Kept(file, machine_of(method.device, document["environment"]), anew=anew)
    lacking = [each for each in precisions if campaign.lacks(f"ceilings of {each}")]
    before_s = START_S + sum(cost_s(each, method.device, kept, first=each == precisions[0]) for each in lacking)
    left = [case for case in cases if campaign.lacks(str(case))]
    progress = Progress(before_s + sum(case_cost_s(case, None, method) for case in left))
    about = duration_text(progress.left_s)
    note(f"about {about} on quiet cores, of which {duration_text(before_s)} before the first case")
    if (busy := busy_share()) > QUIET_SHARE:
        note(f"other work uses {busy:.0%} of the cores now: it takes longer, and times are upper bounds")
    for precision in precisions:
        make = functools.partial(_ceilings, Source(process, method, kept, precision, progress), document)
        found = campaign.turn(f"ceilings of {precision}", make, Ceilings)
        if words := next((words for each in found["found"] if (words := _impossible(each))), None):
            raise ResultError(f"{campaign.folder} is damaged: {words}", fix=ANEW)
        document["ceilings"] += found["found"]
        document["ceilings_left_out"] = [*dict.fromkeys((*document["ceilings_left_out"], *found["left_out"]))]


class Ceilings(TypedDict):
    """The ceilings of a precision, of which there may be none, and parts of them that were left out."""

    found: Annotated[list[Ceiling], msgspec.Meta(max_length=1)]
    left_out: list[str]


def _ceilings(source: Source, document: KernelsDocument) -> Ceilings:
    """Measure the ceilings of a precision, or say that it has none."""
    found = ceiling_of(source, next(iter(document["ceilings"]), None))
    if found is None:
        note(f"ceilings of {source.precision}: not measured, so its cases have no share of them")
    elif source.reused:
        note(f"ceilings of {source.precision}: kept since {found.get('measured')}; --new-ceilings measures them again")
    return {"found": [] if found is None else [found], "left_out": source.left_out}


@explained
def _summed(traced: Traced, cases: Sequence[KernelCase]) -> Traced:
    """Add up the times of an inference's kernels (ms), if all of its calls have a time."""
    timed = [(case["count"], case["ms"]["median"]) for case in cases if case["ms"] and case["library"] == TORCH]
    known = sum(count for count, _ in timed)
    calls, whole = traced["kernels"], sum(count * ms for count, ms in timed)
    missing = f"{known} of {calls} calls have been measured"
    return {**traced, "kernels_ms": whole if known >= calls else unknown(missing)}


@explained
def _case(process: OwnProcess, case: Case, method: Method, ceiling: Ceiling | None) -> KernelCase:
    """Measure a case in the process; one that cannot run is not sent there."""
    reason = refusal(case, method.device)
    if reason:
        return blank(case, method.device, "skipped", reason)
    watch = watching()
    try:
        found = process.run(measure, case, method, ceiling, timeout_s=method.limit_s + GRACE_S)
    except ERRORS as error:
        return blank(case, method.device, "failed", words(error))
    return {**found, "other_cpu_share": taken(watch)}


def line(found: KernelCase) -> str:
    """A case's outcome, while others are still to come."""
    if found["ms"] is None:
        return f"{found['status'].upper()} {found.get('reason')}"
    speed = found["tflops"]
    rate = f"{found['gbps']:.3g} GB/s" if speed is None or not found["flops"] else f"{1e3 * speed:.3g} GFLOP/s"
    return f"{found['ms']['median']:.4g} ms, {rate}"


def case_cost_s(case: Case, ceiling: Ceiling | None, method: Method) -> float:
    """Estimate the time of a case (s). Without a ceiling a modest device is assumed."""
    if refusal(case, method.device):
        return NOTHING_S
    call_s = max(case.floor_s(ceiling or _modest(method.device), method.cache).values())
    return NOTHING_S if call_s * CALLS > method.limit_s else FIXED_S + CALLS * call_s


def _modest(device: Device) -> Ceiling:
    kind = "gpu" if device.is_gpu else "cpu"
    cores = 1 if device.is_gpu else device.cores
    return {
        "precision": "fp32",
        "tflops": SLOW_TFLOPS[kind] * cores,
        "tflops_of": "",
        "bandwidths": [{"mib": 0.0, "gbps": SLOW_GBPS[kind], "of": ""}],
        "call_us": SLOW_CALL_US,
        "vendor_tflops": None,
        "vendor_gbps": None,
    }


def asked(folder: Path) -> KernelsDocument:
    """Read the document that a run was begun with. Raises ResultError."""
    document = results.typed(asked_of(folder), folder, KernelsDocument)
    if words := _nonsense(document):
        raise ResultError(f"{folder} is damaged: {words}", fix=ANEW)
    return document


def _nonsense(document: KernelsDocument) -> str | None:
    """Find values of the right type that no run has written."""
    for key in ("precisions", "libraries", "families"):
        if not document[key] or len({*document[key]}) < len(document[key]):
            return f"{key} are {document[key]}"
    if not 0 < document["case_limit_s"] <= MAX_LIMIT_S:
        return f"case_limit_s is {document['case_limit_s']:g}"
    if document["spent_s"] < 0:
        return f"spent_s is {document['spent_s']:g}"
    traced = document["traced"]
    if traced and not 0 < traced["batch_size"] <= MAX_BATCH:
        return f"batch_size is {traced['batch_size']}"
    return None


def _impossible(ceiling: Ceiling) -> str | None:
    """Find a rate that nothing can have: cases are divided by it."""
    steps = ceiling["bandwidths"]
    rates = [ceiling["tflops"], ceiling["call_us"], *(each["gbps"] for each in steps)]
    if not steps or min(rates) <= 0 or min(each["mib"] for each in steps) <= 0:
        return f"a ceiling of {ceiling['precision']} is not positive, or is missing"
    if [each["mib"] for each in steps] != sorted(each["mib"] for each in steps):
        return f"bandwidths of {ceiling['precision']} are not in order"
    return None
