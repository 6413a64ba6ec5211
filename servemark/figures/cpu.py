"""Use of this machine's cores in the measured interval: mean numbers of cores. Interrupts are left out."""

from collections.abc import Callable

from servemark.figures.evidence import Evidence
from servemark.figures.figure import Figure, same
from servemark.figures.value import CORES, SHARE, Unit, Value
from servemark.machine.cpu_time import CpuUse


def _figure(name: str, words: str, of: Callable[[CpuUse], float], unit: Unit = CORES) -> Figure:
    def compute(evidence: Evidence) -> Value:
        use = evidence.cpu
        return Value.unknown(use) if isinstance(use, str) else Value(of(use))

    return Figure(f"cpu.{name}", unit, words, compute, better="lower" if name == "other_share" else None, join=same)


FIGURES = (
    _figure("available", "Cores that may be used, by affinity and quota.", lambda use: use.allowed),
    _figure(
        "generator", "Used by the generator, and by the command that started it.", lambda use: use.groups["generator"]
    ),
    _figure(
        "server",
        "Used by the server. 0: it runs on another machine, or in the generator.",
        lambda use: use.groups["server"],
    ),
    _figure("other", "Used by other work.", lambda use: use.other),
    _figure("stolen", "Taken by other virtual machines (steal).", lambda use: use.stolen),
    _figure(
        "other_share",
        "Share of the cores that other work and other virtual machines took.",
        lambda use: use.other_cpu_share,
        SHARE,
    ),
)
