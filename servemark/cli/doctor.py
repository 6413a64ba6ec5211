"""`servemark doctor`: what this machine can do."""

import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import psutil
from rich.table import Table
from rich.text import Text

from servemark import interrupts
from servemark.documents.commands.prepare import Doctor
from servemark.documents.request import DEFAULT_ENGINE
from servemark.errors import ExitCode
from servemark.frameworks import distribution_of, serves_here
from servemark.output import stdout
from servemark.paths import RESULTS
from servemark.results.directory import print_json

PORTS = (8000, 8001, 8002)
ROOM_GB, GENERATOR_ROOM_GB = 2.0, 0.2
"""Free disk for the first exports and results, and for a generator's results."""
BUSY_SHARE = 0.2
"""Of the CPU, in use before anything is measured."""
_WATCHED_S = 0.5
EXPORT_PACKAGES = ("torch", "torchvision", "onnx", "onnxscript", "onnxruntime")


@dataclass(frozen=True)
class Check:
    """One fact. `needed`: what is installed here cannot work without it."""

    name: str
    ok: bool
    detail: str
    needed: bool = False


def doctor(options: Doctor) -> int:
    """Check this machine; the exit code."""
    generator = options.generator
    found = not generator and not serves_here()
    generator = generator or found
    with interrupts.anywhere():
        checks = [*_machine(generator)]
        checks += [] if generator else [*_servers(), *_engines(), *_energy(), *_ports()]
    able = all(check.ok for check in checks if check.needed)
    if options.json:
        print_json({"able": able, "checks": [asdict(check) for check in checks]})
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        for check in checks:
            word, style = ("yes", "green") if check.ok else ("NO", "red") if check.needed else ("no", "yellow")
            table.add_row(Text(word, style), check.name, check.detail)
        console = stdout()
        console.print(table)
        can = "yes" if able else "no"
        job = f"load generator: {can}" if generator else f"export, serve and load models: {can}"
        if found:
            job += "; nothing that exports or serves is installed, so `servemark run` needs --url"
        elif not generator and not able:
            job += "; as a load generator: servemark doctor --generator"
        console.print(job, style="bold")
    return int(ExitCode.VALID if able else ExitCode.BAD_INPUT)


def _machine(generator: bool) -> Iterator[Check]:
    from servemark.machine import limits
    from servemark.machine.environment import collect

    found, cores = collect(), limits.cores()
    yield Check("cpu", True, f"{found['cpu']}, {cores}, {found['memory_gb']} GB, Python {found['python']}")
    yield _idle()
    yield _priority()
    yield _awake()
    yield _stamps()
    if cores.limited_by == "quota":
        advice = f"engines start {cores.affinity} threads: --engine-option intra_op_thread_count={cores.allowed}"
        yield Check("cpu quota", True, f"{cores.quota:g} cores, of which engines know nothing; {advice}")
    if found["memory_limit_gb"] is not None:
        yield Check("memory limit", True, f"{found['memory_limit_gb']} GB, of the control group")
    gpus = [f"{gpu['name']}" for gpu in found["gpus"]]
    yield Check("gpu", bool(gpus), ", ".join(gpus) or found["gpus_reason"] or "none")
    there = next(folder for folder in RESULTS.absolute().parents if folder.is_dir())
    free_gb, need_gb = shutil.disk_usage(there).free / 1e9, GENERATOR_ROOM_GB if generator else ROOM_GB
    what = "results need" if generator else "exports and results of a few models need"
    yield Check("disk", free_gb >= need_gb, f"{free_gb:.3g} GB free, {what} {need_gb:g}", needed=True)


def _priority() -> Check:
    """Check that an open loop can send on time beside a server that takes all cores."""
    from servemark.machine.scheduling import Priority, refusal

    refused = {priority: refusal(priority) for priority in (Priority.REALTIME, Priority.SLICE)}
    realtime, slice_ = refused.values()
    if realtime is None:
        return Check("send priority", True, "real time: an open loop sends on time while a server takes all cores")
    instead = "the shortest slice instead" if slice_ is None else f"no slice: {slice_}"
    fix = "run as root or with CAP_SYS_NICE, or `ulimit -r 1`"
    return Check("send priority", False, f"no real time: {realtime} ({fix}); {instead}")


def _awake() -> Check:
    """Check that the cores of a virtual machine are kept from idling while requests are sent."""
    from servemark.machine.environment import virtual_machine
    from servemark.machine.scheduling import awake_refusal

    if virtual_machine() is None:
        return Check("cpu latency", True, "no virtual machine: cores idle as ever (--cpu-latency-qos on: never)")
    if refused := awake_refusal():
        return Check("cpu latency", False, f"{refused} (run as root): cores that idle wake up late")
    return Check("cpu latency", True, "cores can be kept out of idle states: --cpu-latency-qos on")


def _stamps() -> Check:
    """Check that answers are received by what is compiled, which makes the generator a tenth faster."""
    from loadgen.sut.kernel_clock import compiled

    if compiled is None:
        return Check(
            "packet stamps",
            False,
            "read in Python, for a tenth of the highest rate: apt-get install gcc python3-dev, then pip install again",
        )
    return Check("packet stamps", True, "read in C")


def _idle() -> Check:
    """Check that the CPU is free to be measured."""
    used = psutil.cpu_percent(_WATCHED_S) / 100
    late = "" if used < BUSY_SHARE else ": beside such work requests go out late, and runs end INVALID"
    return Check("cpu idle", not late, f"{used:.0%} of the CPU is in use{late}")


def _servers() -> Iterator[Check]:
    import servers

    modes = servers.find_modes()
    for name, missing in modes.items():
        yield Check(f"triton: {name}", missing is None, f"{missing or 'can be started'}")
    yield Check("triton", None in modes.values(), "at least one way to start it", needed=True)


def _engines() -> Iterator[Check]:
    from exporters import exporter
    from servers.engines import engine_module, engine_names

    for engine in engine_names():
        packages = (engine_module(engine).PACKAGE,)
        yield _packages(f"engine: {engine}", packages, exporter(engine).EXTRA, needed=engine == DEFAULT_ENGINE)
    yield _packages("export", EXPORT_PACKAGES, "export", needed=True)


def _energy() -> Iterator[Check]:
    from servemark.telemetry.energy import discover

    for meter in discover():
        yield Check(
            f"energy: {meter.boundary}", meter.reason is None, f"{meter.source}: {meter.reason or 'can be read'}"
        )


def _ports() -> Iterator[Check]:
    import socket

    for port in PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                yield Check(f"port {port}", False, f"{error.strerror}; `servemark run` takes free ports")
            else:
                yield Check(f"port {port}", True, "free")


def _packages(name: str, packages: tuple[str, ...], extra: str, *, needed: bool) -> Check:
    """Check that packages are there: show their versions, or the command that installs them."""
    found = {package: (known := distribution_of(package)) and " ".join(known) for package in packages}
    missing = [package for package, version in found.items() if version is None]
    if missing:
        return Check(name, False, f"not installed: {', '.join(missing)}; pip install -e '.[{extra}]'", needed)
    return Check(name, True, ", ".join(filter(None, found.values())), needed)
