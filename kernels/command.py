"""`servemark kernels`: time the operations that models are made of, on the same device."""

from collections.abc import Sequence
from dataclasses import replace

from kernels import running
from kernels.libraries import libraries, version
from kernels.measurement.case import Case, Method, cases_in
from kernels.measurement.device import PRECISIONS, Device
from kernels.measurement.kernel import Kernel, families
from kernels.suites import cases_of, chosen, suites
from kernels.suites.deepbench import published
from kernels.tracing.workload import trace_apart
from servemark.cli._report import write_report
from servemark.documents.commands.measure import DEFAULT_KERNELS, Kernels
from servemark.errors import ExitCode, OptionError
from servemark.output import note, stdout
from servemark.paths import found, shown
from servemark.quantities import one_of
from servemark.results import directory as results
from servemark.results.schema.kernels import KernelsDocument, Traced
from servemark.views.render.terminal import show

DEFAULT_PRECISIONS = ("fp32",)


def kernels(options: Kernels) -> int:
    """Time the kernels that are asked for; the exit code."""
    if options.listing:
        _show_list()
        return int(ExitCode.VALID)
    if options.resume:
        folder = found(options.resume)
        cases, method, document = _of_document(running.asked(folder))
    else:
        cases, method, document = _begun(options)
        name = options.workload or document["suite"]
        folder = results.new_directory(options.out, f"kernels-{name}")
    note(f"{len(cases)} cases into {shown(folder)}; to go on after Ctrl-C: --resume {shown(folder)}")
    running.run(folder, document, cases, method, anew=options.new_ceilings, resume=bool(options.resume))
    if options.json:
        results.print_json(document)
    else:
        show(document, stdout(kept=True))
    note(f"result: {shown(folder)}")
    if options.report:
        write_report(folder, quiet=options.json)
    failed = any(case["status"] == "failed" for case in document["cases"])
    return int(ExitCode.INVALID if failed else ExitCode.VALID)


def _begun(options: Kernels) -> tuple[list[Case], Method, KernelsDocument]:
    """Choose the cases of a new run, and make its document. Raises OptionError, ServerError."""
    for name in options.precision:
        one_of("--precision", name, PRECISIONS)
    families = options.family
    method = Method(Device.named(options.device), options.cache, options.case_limit_s)
    name, traced = options.suite or DEFAULT_KERNELS, None
    if options.workload:
        name = f"{options.workload}, batch {options.batch_size}"
        cases, traced = _traced(options.workload, options.batch_size, families, method.device)
    else:
        cases = cases_of(name, families)
    cases = cases_in(list(dict.fromkeys(options.precision)) or DEFAULT_PRECISIONS, cases, _libraries(options.library))
    if options.published:
        cases = _with_published(cases)
        if not any(case.published for case in cases):
            note("--published: DeepBench has published no figure of these sizes; deepbench-train and -server have")
    return cases, method, running.begin(name, cases, method, traced, published=options.published)


def _libraries(text: str) -> list[str]:
    """Read `--library`. Raises OptionError on one that is unknown, or not installed."""
    names = [one_of("--library", name.strip(), libraries()) for name in text.split(",")]
    for name in names:
        if version(name) is None:
            raise OptionError(f"{name} is not installed", fix=f"pip install 'servemark[{name}]'")
    return list(dict.fromkeys(names))


def _traced(workload: str, batch: int, families: Sequence[str], device: Device) -> tuple[list[Case], Traced]:
    """Trace a workload: its kernels, and the parts of its latency. Raises OptionError, ServerError."""
    note(f"tracing {workload} at batch {batch}")
    found = trace_apart(workload, batch, device)
    return chosen(workload, found.cases, families), found.traced


def _with_published(cases: list[Case]) -> list[Case]:
    known = published()
    return [replace(case, published=tuple(known.get(case.kernel, ()))) for case in cases]


def _of_document(document: KernelsDocument) -> tuple[list[Case], Method, KernelsDocument]:
    """Return what a run that was cut short asks for here. Raises OptionError."""
    known, families = document["traced"], document["families"]
    if known:
        cases, _ = _traced(known["workload"], known["batch_size"], families, Device.named(document["device"]))
    else:
        cases = cases_of(document["suite"], families)
    cases = cases_in(document["precisions"], cases, document["libraries"])
    if document["published"]:
        cases = _with_published(cases)
    method = Method(Device.named(document["device"]), document["cache"], document["case_limit_s"])
    here = running.begin(document["suite"], cases, method, known, published=document["published"])
    return cases, method, here


def _show_list() -> None:
    console = stdout()
    for name, suite in suites().items():
        cases = suite()
        console.print(f"{name}: {len(cases)} cases of {', '.join(dict.fromkeys(case.family for case in cases))}")
    console.print()
    for name, made in families().items():
        also = "" if made.node is Kernel.node else "; also in other libraries"
        console.print(f"{name}: {made.CALL}; {', '.join(made.PRECISIONS)}; FLOPs: {made.OPERATIONS}{also}")
