"""The machine while a run went on: cores, energy, and what was read of CPU and GPU several times a second."""

from servemark.quantities import figure, interval_words
from servemark.results.saved import Saved
from servemark.results.schema.header import figure_of
from servemark.results.schema.metrics import CpuFigures, EnergyFigures
from servemark.results.schema.run import Result
from servemark.views.blocks import Block, Facts, Figure
from servemark.views.drawing.axis import linear
from servemark.views.drawing.plot import Bar, ends
from servemark.views.plots.machine_series import machine_series

_CORES = {
    "generator": "generator_cores",
    "server": "server_cores",
    "other work": "other_cores",
    "other virtual machines": "stolen_cores",
}


def machine(saved: Saved) -> list[Block]:
    """Show the use of the cores, and the energy with its source and boundary."""
    metrics = saved.of(Result)["metrics"]
    parts: list[Block] = [*_energy(metrics["energy"])]
    cpu = metrics.get("cpu")
    parts += [_cores(cpu)] if cpu and cpu["other_cpu_share"] is not None else []
    found = saved.machine_series
    return [*parts, *machine_series(found)] if found else parts


def _energy(found: EnergyFigures) -> list[Facts]:
    """Joules with where they were read; the facts beside the latency say why they are not known."""
    if found["joules"] is None and found["joules_per_inference"] is None:
        return []
    figures = {
        "J/inference": "joules_per_inference",
        "mean W": "average_w",
        "idle W": "idle_w",
        "J": "joules",
        "metered s": "window_s",
    }
    rows = [(name, figure(figure_of(found, key))) for name, key in figures.items()]
    if (interval := found.get("joules_per_inference_ci95")) is not None:
        rows.insert(1, ("95 % interval", interval_words(interval)))
    return [Facts([*rows, ("source", str(found["source"])), ("boundary", str(found["boundary"]))])]


def _cores(cpu: CpuFigures) -> Figure:
    cores = cpu["cores"] or 0.0
    drawn = [Bar(name, figure_of(cpu, key), colour=number) for number, (name, key) in enumerate(_CORES.items())]
    note = f"Largest of the other work: {cpu['largest_other']}." if cpu.get("largest_other") else ""
    axis = linear(f"cores of {cores:g}", [*ends(drawn), cores])
    return Figure.of_bars("Who used the cores", axis, drawn, ["who", "cores"], note=note)
