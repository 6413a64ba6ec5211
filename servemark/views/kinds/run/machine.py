"""The machine while a run went on: cores, energy, and what was read of CPU and GPU several times a second."""

import math
from collections.abc import Sequence

from servemark.figures.registry import interval_of, value_of
from servemark.quantities import figure, interval_words
from servemark.results.saved import Saved
from servemark.results.schema.run import MachineSeries, Result, SeriesColumn, SeriesOf
from servemark.views.blocks import Block, Facts, Figure, Lines, Table
from servemark.views.charts import Bar
from servemark.views.drawing import Plot, linear

MAX_POINTS = 240
"""Of a line: neighbours are joined to their mean beyond."""
MAX_LINES = 8
THROTTLED = "gpu_throttled"
"""A line for each reason of each board, most of which never hold."""
OWN = ("machine", "triton")
MAX_FOREIGN = 12
"""Figures of another exporter that the page draws; it may have hundreds."""
_ROWS = 20
_UNITS = {
    "bytes": (1e-9, "GB"),
    "hertz": (1e-6, "MHz"),
    "ratio": (100.0, "%"),
    "watts": (1.0, "W"),
    "celsius": (1.0, "°C"),
}
_CORES = {
    "generator": "cpu.generator",
    "server": "cpu.server",
    "other work": "cpu.other",
    "other virtual machines": "cpu.stolen",
}


def beside_the_run(saved: Saved) -> list[Block]:
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
    unit, head = f"cores of {cores:g}", ["who", "cores"]
    return Figure.of_bars("Who used the cores", unit, drawn, head, note=note, around=[cores])


def machine_series(found: MachineSeries) -> list[Block]:
    """A plot for each figure with a line for each board or part; counters are left to the file."""
    parts: list[Block] = []
    for source in found["series"]:
        names = dict.fromkeys(column["name"] for column in source["columns"] if not column["counter"])
        most = len(names) if source["source"] in OWN else MAX_FOREIGN
        parts += [drawn for name in list(names)[:most] for drawn in _figure(name, source, found)]
        if len(names) > most:
            parts.append(Lines([f"{source['source']}: {len(names) - most} more figures are in series.json"]))
        absent = [f"{name}: not read ({why})" for name, why in source["absent"].items()]
        parts += [Lines(absent)] if absent else []
    return parts


def _figure(name: str, source: SeriesOf, found: MachineSeries) -> list[Block]:
    columns = [column for column in source["columns"] if column["name"] == name and not column["counter"]]
    columns = [column for column in columns if any(value is not None for value in column["values"])]
    if not columns:
        return []
    if name == THROTTLED and not (columns := [column for column in columns if any(column["values"])]):
        return [Lines(["gpu throttled: never"])]
    columns, more = columns[:MAX_LINES], columns[MAX_LINES:]
    # Triton's own metrics name their unit, as Prometheus asks for, and no more.
    given = columns[0]["unit"] or next((each for each in _UNITS if name.endswith(f"_{each}")), "")
    factor, unit = _UNITS.get(given, (1.0, given))
    start = found["measured_from_s"]
    lines = {_label(column): _joined(source["time_s"], column["values"], start, factor) for column in columns}
    times = [time_s for line in lines.values() for time_s, _ in line]
    title = name.removesuffix(f"_{given}").replace("_", " ")
    if name.startswith("nv_"):
        title = f"Triton: {title.removeprefix('nv ')}"
    elif source["source"] not in OWN:
        title = f"{source['source']}: {title}"
    plot = Plot(
        f"{title} over time",
        linear("s from the start of the measured interval", times, from_zero=False),
        linear(unit, [value for line in lines.values() for _, value in line]),
    )
    plot.band(0.0, found["measured_until_s"] - start)
    for number, (label, line) in enumerate(lines.items()):
        plot.line(line, label or title, number)
    longest = max(lines.values(), key=len)
    step = math.ceil(len(longest) / _ROWS)
    rows = [
        [f"{time_s:.2f}", *(figure(line[number][1]) if number < len(line) else "-" for line in lines.values())]
        for number, (time_s, _) in enumerate(longest)
        if number % step == 0
    ]
    head = ["s", *(f"{label} {unit}".strip() for label in lines)]
    note = next((f"A gap: {column['reason']}." for column in columns if column["reason"]), "")
    drawn = Figure.of(plot, title, Table(head, rows), note=note)
    return [drawn, Lines([f"{title}: {len(more)} more lines are in series.json"])] if more else [drawn]


def _label(column: SeriesColumn) -> str:
    return ", ".join(f"{name} {value}" for name, value in column["labels"].items())


def _joined(
    times: Sequence[float], values: Sequence[float | None], start_s: float, factor: float
) -> list[tuple[float, float | None]]:
    """Reduce a series to at most MAX_POINTS points, each the mean of the known values around it."""
    step = max(math.ceil(len(times) / MAX_POINTS), 1)
    joined: list[tuple[float, float | None]] = []
    for first in range(0, len(times), step):
        known = [value for value in values[first : first + step] if value is not None]
        mean = factor * sum(known) / len(known) if known else None
        joined.append((times[first] - start_s, mean))
    return joined
