"""`servemark kernels`: time the operations that models are made of, on the same device."""

import dataclasses

from msgspec.structs import replace

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
from servemark.paths import resumed, shown
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
    if folder := resumed(options.resume):
        before = running.asked(folder)
        cases, method, document = _begun(_again(options, before), before["traced"])
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


def _again(options: Kernels, document: KernelsDocument) -> Kernels:
    """Return what a run that was cut short had been asked for. Raises OptionError."""
    traced = document["traced"]
    return replace(
        options,
        suite="" if traced else document["suite"],
        workload=traced["workload"] if traced else "",
        batch_size=traced["batch_size"] if traced else 1,
        family=tuple(document["families"]),
        library=",".join(document["libraries"]),
        precision=tuple(document["precisions"]),
        **{key: document[key] for key in ("device", "cache", "case_limit_s", "published")},
    )


def _begun(options: Kernels, known: Traced | None = None) -> tuple[list[Case], Method, KernelsDocument]:
    """Choose the cases of a run, and make its document; what is `known` of a workload's latency is not measured again.

    Raises OptionError, ServerError.
    """
    for name in options.precision:
        one_of("--precision", name, PRECISIONS)
    families = options.family
    method = Method(Device.named(options.device), options.cache, options.case_limit_s)
    name, traced = options.suite or DEFAULT_KERNELS, None
    if options.workload:
        name = f"{options.workload}, batch {options.batch_size}"
        note(f"tracing {options.workload} at batch {options.batch_size}")
        found = trace_apart(options.workload, options.batch_size, method.device, timed=known is None)
        cases, traced = chosen(options.workload, found.cases, families), known or found.traced
    else:
        cases = cases_of(name, families)
    cases = cases_in(list(dict.fromkeys(options.precision)) or DEFAULT_PRECISIONS, cases, _libraries(options.library))
    if options.published:
        figures = published()
        cases = [dataclasses.replace(case, published=tuple(figures.get(case.kernel, ()))) for case in cases]
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


def _show_list() -> None:
    console = stdout()
    for name, suite in suites().items():
        cases = suite()
        console.print(f"{name}: {len(cases)} cases of {', '.join(dict.fromkeys(case.family for case in cases))}")
    console.print()
    for name, made in families().items():
        also = "" if made.node is Kernel.node else "; also in other libraries"
        console.print(f"{name}: {made.CALL}; {', '.join(made.PRECISIONS)}; FLOPs: {made.OPERATIONS}{also}")
