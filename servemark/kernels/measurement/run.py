"""A run of many cases: progress, a result that is complete after each of them, and going on where one stopped."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import psutil

from servemark.errors import OptionError, ServerError
from servemark.kernels.libraries import TORCH, version
from servemark.kernels.measurement.case import Case, Method, blank, measure, refusal
from servemark.kernels.measurement.ceilings import ceiling_of
from servemark.kernels.measurement.precisions import PRECISIONS
from servemark.kernels.measurement.process import CaseProcess, Ended
from servemark.machine.cpu_time import CannotTell, Watch
from servemark.output import note
from servemark.results import directory as results
from servemark.results.schema.header import opening, unknown
from servemark.results.schema.kernels import Ceiling, KernelCase, KernelsDocument, Traced

GRACE_S = 120.0
"""How long a case may take beyond its limit: tensors are made, PyTorch is imported, an answer is checked."""
CEILING_S = 600.0
BUSY_S = 0.5
FIXED_S = 2.0
"""What a case takes however small it is, for the time that is left."""
CALLS = 10
"""What a large one takes, in calls."""


def begin(
    suite: str, cases: Sequence[Case], method: Method, traced: Traced | None = None, *, reference: bool = False
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
        **opening("kernels"),
        "suite": suite,
        "traced": traced,
        "families": list(dict.fromkeys(case.family for case in cases)),
        "device": method.device.name,
        "precisions": list(dict.fromkeys(case.precision for case in cases)),
        "cache": method.cache,
        "threads": method.device.cores,
        "busy_share": busy_share(),
        "cache_mib": method.device.cache_bytes / (1 << 20),
        "case_limit_s": method.limit_s,
        "library": ", ".join(f"{name} {version(name)}" for name in names),
        "libraries": names,
        "reference": reference,
        "ceilings": [],
        "cases": [],
        "planned": len(cases),
        "spent_s": 0.0,
        "partial": True,
    }


def busy_share() -> float:
    """Share of all cores that other work uses now."""
    return psutil.cpu_percent(interval=BUSY_S) / 100


def go_on(folder: Path, document: KernelsDocument, cases: Sequence[Case], method: Method) -> KernelsDocument:
    """Measure what the document lacks, and write it to `result.json` after each case.

    Raises KeyboardInterrupt, with what has been measured in the file, and ServerError where no ceiling can be measured.
    """
    results.write(folder, document)
    with CaseProcess() as process:
        for precision in document["precisions"]:
            known = {ceiling["precision"] for ceiling in document["ceilings"]}
            if precision not in known and _runs(precision, cases, method):
                note(f"measuring the ceilings of {precision}")
                document["ceilings"].append(_ceiling(process, precision, method, document["ceilings"]))
                results.write(folder, document)
        ceilings = {ceiling["precision"]: ceiling for ceiling in document["ceilings"]}
        costs = [_cost(case, ceilings.get(case.precision), method) for case in cases]
        done = len(document["cases"])
        begun, spent = time.monotonic(), document["spent_s"]
        for number, case in enumerate(cases[done:], start=done):
            found = _case(process, case, method, ceilings.get(case.precision))
            document["cases"].append(found)
            took = time.monotonic() - begun
            document["spent_s"] = spent + took
            document["partial"] = number + 1 < len(cases)
            if document["traced"]:
                document["traced"] |= _sum(document["cases"], document["traced"]["kernels"])
            results.write(folder, document)
            left_s = took * sum(costs[number + 1 :]) / sum(costs[done : number + 1])
            note(f"[{number + 1}/{len(cases)}] {case}: {line(found)}{_left(left_s)}")
    return document


def _sum(cases: Sequence[KernelCase], calls: int) -> Traced:
    """What the kernels of an inference take one after the other (ms), where all of its `calls` have a time."""
    timed = [(case["count"], case["ms"]["median"]) for case in cases if case["ms"] and case["library"] == TORCH]
    known = sum(count for count, _ in timed)
    if known < calls:
        return cast(Traced, unknown(("kernels_ms",), f"{known} of {calls} calls have been measured"))
    return cast(Traced, {"kernels_ms": sum(count * ms for count, ms in timed), "kernels_ms_reason": None})


def _case(process: CaseProcess, case: Case, method: Method, ceiling: Ceiling | None) -> KernelCase:
    """Measure a case in the process; one that cannot run is not sent there."""
    reason = refusal(case, method.device)
    if reason:
        return blank(case, method.device, "skipped", reason)
    watch = watching()
    try:
        found = process.run(measure, case, method, ceiling, timeout_s=method.limit_s + GRACE_S)
    except Ended as ended:
        return blank(case, method.device, "failed", str(ended))
    return cast(KernelCase, {**found, **taken(watch)})


def watching() -> Watch | CannotTell:
    """The cores from now on, or why they cannot be watched."""
    try:
        return Watch({"kernels": [os.getpid()]})
    except CannotTell as reason:
        return reason


def taken(watch: Watch | CannotTell) -> Mapping[str, object]:
    """What others took of the cores since then, or why that is not known."""
    try:
        if isinstance(watch, CannotTell):
            raise watch
        return {"taken_share": watch.use().taken_share}
    except CannotTell as reason:
        return unknown(("taken_share",), str(reason))


def _ceiling(process: CaseProcess, precision: str, method: Method, known: list[Ceiling]) -> Ceiling:
    try:
        return process.run(ceiling_of, precision, method, next(iter(known), None), timeout_s=CEILING_S)
    except Ended as ended:
        raise ServerError(f"the ceilings of {precision}: {ended}", fix="free memory, or cores") from None


def _runs(precision: str, cases: Sequence[Case], method: Method) -> bool:
    """Whether any case of a precision can run."""
    return any(case.precision == precision and refusal(case, method.device) is None for case in cases)


def _cost(case: Case, ceiling: Ceiling | None, method: Method) -> float:
    """About how long a case takes (s), to tell what is left."""
    if ceiling is None or refusal(case, method.device):
        return 0.001
    call_s = max(case.floor_s(ceiling, method.cache).values())
    return 0.001 if call_s * CALLS > method.limit_s else FIXED_S + CALLS * call_s


def line(found: KernelCase) -> str:
    """A case's outcome, while others are still to come."""
    if found["ms"] is None:
        return f"{found['status'].upper()} {found.get('reason')}"
    rate = f"{found['tflops']:.3g} TFLOP/s" if found["flops"] else f"{found['gbps']:.3g} GB/s"
    return f"{found['ms']['median']:.4g} ms, {rate}"


def _left(seconds: float) -> str:
    if seconds < 1:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f" ({minutes} min {rest} s left)" if minutes else f" ({rest} s left)"


def resumed(folder: Path) -> KernelsDocument:
    """The document of a run that was cut short. Raises ResultError, and OptionError where it is none, or is whole."""
    document = results.read(folder)
    if document.get("kind") != "kernels":
        raise OptionError(f"{folder} holds no kernels", fix="name a folder of `servemark kernels`")
    found = cast(KernelsDocument, document)
    if not found["partial"]:
        raise OptionError(f"{folder} is whole: {found['planned']} cases", fix=f"servemark show {folder}")
    return found
