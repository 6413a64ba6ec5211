"""The machine while a run went on: cores, energy, and what was read of CPU and GPU several times a second."""

from servemark.figures.registry import interval_of, value_of
from servemark.quantities import figure, interval_words
from servemark.results.saved import Saved
from servemark.results.schema.run import Result
from servemark.views.blocks import Block, Facts, Figure
from servemark.views.drawing.axis import linear
from servemark.views.drawing.plot import Bar, ends
from servemark.views.plots.machine_series import machine_series

_CORES = {
    "generator": "cpu.generator",
    "server": "cpu.server",
    "other work": "cpu.other",
    "other virtual machines": "cpu.stolen",
}


def machine(saved: Saved) -> list[Block]:
    """Show the use of the cores, and the energy with its source and boundary."""
    result = saved.of(Result)
    parts: list[Block] = [*_energy(result)]
    parts += [_cores(result)] if value_of(result, "cpu.other_share") is not None else []
    found = saved.machine_series
    return [*parts, *machine_series(found)] if found else parts


def _energy(result: Result) -> list[Facts]:
    """Joules with where they were read; the facts beside the latency say why they are not known."""
    if value_of(result, "energy.total") is None and value_of(result, "energy.per_inference") is None:
        return []
    figures = {
        "J/inference": "energy.per_inference",
        "mean W": "energy.power",
        "idle W": "energy.idle_power",
        "J": "energy.total",
        "metered s": "energy.window",
    }
    rows = [(name, figure(value_of(result, tag))) for name, tag in figures.items()]
    if (interval := interval_of(result, "energy.per_inference")) is not None:
        rows.insert(1, ("95 % interval", interval_words(interval)))
    meter = result["details"]["energy"]
    return [Facts([*rows, ("source", str(meter["source"])), ("boundary", str(meter["boundary"]))])]


def _cores(result: Result) -> Figure:
    cores = value_of(result, "cpu.available") or 0.0
    drawn = [Bar(name, value_of(result, tag), colour=number) for number, (name, tag) in enumerate(_CORES.items())]
    largest = result["details"].get("cpu", {}).get("largest_other")
    note = f"Largest of the other work: {largest}." if largest else ""
    axis = linear(f"cores of {cores:g}", [*ends(drawn), cores])
    return Figure.of_bars("Who used the cores", axis, drawn, ["who", "cores"], note=note)
