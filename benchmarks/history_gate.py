"""False alarms and delay of `servemark history` as a gate that is looked at after each new result.

    python -m benchmarks.history_gate [--runs 300] [--out docs/results/history_gate.md]

Each series is made of logarithms of a figure that varies by 3 % from run to run. The detector is asked as `history`
asks it. It takes some three minutes.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks.coverage import page_parser, put
from servemark.compare.history.changes import RUN_LENGTH, Alarm, alarms, sure

NOISE = 0.03
LOOKS = 100
BEFORE = (10, 20, 50)
RISES = (0.05, 0.10, 0.20)
AFTER = 30
"""Results after a rise; one that was not seen by then counts as missed."""
DAY = 5
SERIES = 20
CHANGED = (0, 1, 5)
Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]

PAGE = """# History as a gate

This page shows how often `servemark history` sees a change in noise, and how soon it sees a real one.

`python -m benchmarks.history_gate --runs {runs}`: {runs} series a cell, of a figure that varies by 3 % from run to run.
A look is a new result. The stated bound is 1 false alarm in {length} looks at independent results.

## False alarms

{looks} looks at each series. After an alarm the gate goes on from the change that it took for one.

| noise | false alarms in 100 looks | series with an alarm in 30 looks | in {looks} |
|---|---:|---:|---:|
{alarms}

## Delay

Results from a rise on, that one included, until it is seen: the median, and what 90 of 100 series need. Only rises are
counted. In brackets: series in which it was not seen after {after} results.

| results before | noise | {heads} |
|---|---|{dashes}
{delays}

## Several series

{series} series of 30 results each, looked at once. Some became 10 % slower six results ago. A series is called worse
where it is beyond chance among all.

| series that are slower | of them called worse | of those called worse, not slower |
|---:|---:|---:|
{together}
"""


def autoregressive(correlation: float) -> Draw:
    """Return a function that draws a first-order autoregression of variance 1."""

    def draw(rng: np.random.Generator, count: int) -> Floats:
        from scipy.signal import lfilter

        noise = rng.normal(size=count + 100) * np.sqrt(1 - correlation**2)
        found: Floats = lfilter([1.0], [1.0, -correlation], noise)[100:]
        return found

    return draw


def days(rng: np.random.Generator, count: int) -> Floats:
    """Draw results of which those of a day share half of their variance."""
    of_day = np.repeat(rng.normal(size=-(-count // DAY)), DAY)[:count]
    found: Floats = (of_day + rng.normal(size=count)) / np.sqrt(2)
    return found


NOISES: dict[str, Draw] = {
    "normal": lambda rng, count: rng.normal(size=count),
    "t with 3 degrees of freedom": lambda rng, count: rng.standard_t(3, count) / np.sqrt(3),
    "AR(1), 0.3": autoregressive(0.3),
    "AR(1), 0.5": autoregressive(0.5),
    f"{DAY} results a day, half of the variance between days": days,
}


def false_alarms(draw: Draw, runs: int) -> tuple[float, float, float]:
    """Return the false alarms in 100 looks, and the shares of series with one within 30 looks and within all."""
    rng = np.random.default_rng(1)
    found = [alarms(NOISE * draw(rng, LOOKS))[0] for _ in range(runs)]
    first = [each[0].seen for each in found if each]
    number = sum(len(each) for each in found)
    return 100 * number / (runs * LOOKS), sum(seen < 30 for seen in first) / runs, len(first) / runs


def _is_rise(alarm: Alarm, values: Floats, before: int) -> bool:
    return alarm.seen >= before and values[alarm.change :].mean() > values[: alarm.change].mean()


def delays(draw: Draw, before: int, rise: float, runs: int) -> list[int]:
    """Return for each run the number of results after which a rise is seen; more than AFTER: it was missed."""
    rng = np.random.default_rng(before)
    found = []
    for _ in range(runs):
        values = NOISE * draw(rng, before + AFTER)
        values[before:] += np.log1p(rise)
        seen = (alarm.seen for alarm in alarms(values)[0] if _is_rise(alarm, values, before))
        found.append(next(seen, before + AFTER) - before + 1)
    return found


def together(changed: int, runs: int) -> tuple[float, float]:
    """Return the share of slower series that are called worse, and the share of others among those called worse."""
    rng = np.random.default_rng(changed)
    right = named = 0
    wrong_shares = []
    for _ in range(runs):
        evidence: list[float | None] = []
        for number in range(SERIES):
            values = NOISE * rng.normal(size=30)
            values[-6:] += np.log1p(0.1) * (number < changed)
            found = alarms(values)[0]
            worse = bool(found) and values[found[-1].change :].mean() > values[: found[-1].change].mean()
            evidence.append(found[-1].evidence if worse else None)
        kept = sure(evidence)
        right, named = right + sum(kept[:changed]), named + changed
        wrong_shares.append(sum(kept[changed:]) / max(sum(kept), 1))
    return right / max(named, 1), sum(wrong_shares) / runs


def page(runs: int) -> str:
    """Simulate all cells and write them down."""
    rows = []
    for name, draw in NOISES.items():
        often, early, ever = false_alarms(draw, runs)
        rows.append(f"| {name} | {often:.2f} | {early:.1%} | {ever:.1%} |")
    slow = []
    for before in BEFORE:
        for name in list(NOISES)[:4]:
            cells = []
            for rise in RISES:
                found = np.array(delays(NOISES[name], before, rise, runs))
                cells.append(
                    f"{np.median(found):.0f}, {np.quantile(found, 0.9):.0f} ({np.mean(found > AFTER):.0%})"
                    if np.mean(found > AFTER) < 0.1
                    else f"{np.median(found):.0f} ({np.mean(found > AFTER):.0%})"
                )
            slow.append(f"| {before} | {name} | {' | '.join(cells)} |")
    many = []
    for changed in CHANGED:
        seen, wrong = together(changed, max(runs // 4, 1))
        many.append(f"| {changed} | {f'{seen:.0%}' if changed else '-'} | {wrong:.1%} |")
    return PAGE.format(
        runs=runs,
        length=RUN_LENGTH,
        looks=LOOKS,
        after=AFTER,
        series=SERIES,
        alarms="\n".join(rows),
        heads=" | ".join(f"+{rise:.0%}" for rise in RISES),
        dashes="---|" * len(RISES),
        delays="\n".join(slow),
        together="\n".join(many),
    )


def main() -> None:
    """Run the program."""
    options = page_parser(__doc__).parse_args()
    put(page(options.runs), options.out)


if __name__ == "__main__":
    main()
