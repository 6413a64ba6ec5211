"""The explanation of a run: the sentence, a waterfall from the model's own work to the slowest 1 %, the fixes."""

from collections.abc import Iterator

from servemark.quantities import figure, interval_words
from servemark.results.schema.explanation import Explanation, Ladder
from servemark.views.blocks import Block, Figure, Lines, Table
from servemark.views.charts import Bar, bars
from servemark.views.wording import cells

LEAST_SHARE = 0.005
"""Parts below this share of the slowest requests' latency are in the table alone."""
LEAST_MS = 0.0005
"""Parts below this are not there."""
_STEPS = ("queue_ms", "input_ms", "infer_ms", "output_ms")
_WIDTH = 40
"""Characters of a waterfall on a terminal."""


def explained(found: Explanation) -> list[Block]:
    """The blocks of an explanation."""
    climbed = ladder(found["ladder"]) if "ladder" in found else []
    return [Lines([found["sentence"], *_changes(found)]), waterfall(found), Lines([*_said(found)]), *climbed]


def waterfall(found: Explanation) -> Figure:
    """Draw each part of the slowest requests' latency from the end of the one before; the model's own work is first."""
    present = [part for part in found["parts"] if max(abs(part["tail_ms"]), abs(part["median_ms"])) >= LEAST_MS]
    parts = sorted(present, key=lambda part: (part["cause"] != "model", -part["tail_ms"]))
    whole = sum(part["tail_ms"] for part in parts)
    median = sum(part["median_ms"] for part in parts)
    drawn, rows, start = [], [], 0.0
    for number, part in enumerate(parts):
        if abs(part["tail_ms"]) >= LEAST_SHARE * whole:
            colour = 0 if part["cause"] == "model" else 1 + number % 6
            drawn.append(Bar(part["words"], part["tail_ms"], None, colour, unit=" ms", start=start))
        times = [figure(part["tail_ms"]), figure(part["median_ms"]), figure(part["excess_ms"])]
        bar = _bar(start, start + part["tail_ms"], whole)
        rows.append([part["words"], *times, f"{100 * part['share']:.0f} %", bar])
        start += part["tail_ms"]
    drawn += [Bar("the slowest 1 %", whole, None, 0, unit=" ms"), Bar("around the median", median, None, 0, unit=" ms")]
    rows.append(["in all", figure(whole), figure(median), figure(found["excess_ms"]), "100 %", "#" * _WIDTH])
    head = ["mean ms of", "the slowest 1 %", "the median", "excess", "of the excess", ""]
    title = "From the model's own work to the slowest 1 %"
    return Figure(title, bars(title, "ms", drawn), Table(head, rows), tabled=True)


def ladder(found: Ladder) -> list[Block]:
    """Draw each rung from the end of the one below; the table has the intervals of the differences."""
    drawn, rows, start = [], [], 0.0
    whole = max(rung["mean_ms"] for rung in found["rungs"])
    for number, rung in enumerate(found["rungs"]):
        step = rung["step_ms"]
        drawn.append(Bar(rung["words"], step, None, number % 7, unit=" ms", start=start))
        steps = ["-"] * len(_STEPS) if rung["server"] is None else cells(rung["server"], _STEPS)
        times = [figure(rung["mean_ms"]), figure(step), interval_words(rung["step_ci95_ms"])]
        rows.append([rung["words"], *times, *steps, _bar(start, rung["mean_ms"], whole)])
        start = rung["mean_ms"]
    head = ["ms, mean of the rounds", "latency", "more than above", "95 % interval"]
    head += ["queue", "input", "infer", "output", ""]
    title = f"From the engine to p99, in {found['rounds']} rounds"
    missing = [f"no {each['rung'].replace('_', ' ')}: {each['reason']}" for each in found["left_out"]]
    return [Figure(title, bars(title, "ms", drawn), Table(head, rows), tabled=True), Lines(missing)]


def _bar(start: float, end: float, whole: float) -> str:
    """Draw from one value to another on a terminal."""
    left, right = (round(_WIDTH * min(max(each / whole, 0), 1)) for each in sorted((start, end)))
    return " " * left + "#" * (right - left)


def _changes(found: Explanation) -> Iterator[str]:
    """Each fix with what it is predicted to bring, and what the first brought where it was tried."""
    for fix in found["fixes"][:3]:
        known = [
            f"{name} {figure(value)} ms" for name, value in (("p50", fix["p50_ms"]), ("p99", fix["p99_ms"])) if value
        ]
        yield f"fix: {fix['words']}: {' and '.join(known) or 'not'} predicted ({fix['basis']})"
    if (tried := found["tried"]) is not None:
        predicted = "" if tried["predicted_ratio"] is None else f", predicted {tried['predicted_ratio']:.2f}"
        interval = f" (95 % interval {interval_words(tried['ratio_ci95'], 2)})" if tried["ratio_ci95"] else ""
        ratio = f"{tried.get('percentile', 'p99')} with the first fix / now {tried['ratio']:.2f}{interval}"
        yield f"tried: {ratio} in {tried['rounds']} rounds{predicted}"


def _said(found: Explanation) -> Iterator[str]:
    """The queue beside its replay, the pauses, and what is missing."""
    if (queue := found["queueing"]) is not None:
        yield (
            f"queue: p99 of the wait {figure(queue['wait_p99_ms'])} ms at {queue['utilization']:.0%} utilisation of "
            f"{queue['instances']}; replayed {figure(queue['replayed_wait_p99_ms'])} ms, and "
            f"{figure(queue['undisturbed_wait_p99_ms'])} ms were each batch as fast as its size usually is"
        )
    if (stopped := found["pauses"]) is not None and stopped["count"]:
        period = "" if stopped["period_s"] is None else f", one each {figure(stopped['period_s'])} s"
        yield f"pauses of the server: {stopped['count']}, median {figure(stopped['median_ms'])} ms{period}"
    if found["note"]:
        yield f"missing: {found['note']}"
