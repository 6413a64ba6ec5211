"""False alarms of the verdict's tests of steadiness, and how often they see a change, on simulated servers.

    python -m benchmarks.steadiness [--runs 400] [--out docs/results/steadiness.md]

Each cell simulates runs of a queue with one server and Poisson arrivals, cuts them into ten windows and asks what the
verdict asks: `drift` of the windows' p50, `tail_growth` of their slowest 1 %, `is_growing` of the unfinished requests.
It takes about five minutes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.coverage import Draw, Floats, constant, exponential, page_parser, put, sojourn
from servemark.results.constraints import ACHIEVED_SHARE
from servemark.stats.trend import drift, is_growing, tail_growth

WINDOWS = 10
LENGTHS = ((50.0, 5.0), (200.0, 15.0), (1000.0, 15.0), (1000.0, 60.0))
"""Requests/s and measured seconds."""
SETTLED_S = 60.0
"""Simulated before the measured interval of a steady server, so that it begins in equilibrium."""
STEADY = (0.3, 0.5, 0.8, 0.9, 0.95, 0.98)
OVERLOADED = (1.02, 1.05, 1.1, 1.2)
TAIL = 20
"""A slow request of a growing tail takes this number of service times longer."""

PAGE = """# Steadiness: false alarms and power

This page shows how often `steady_state` and `achieved_rate` are wrong about simulated servers that are steady, and how
often they see a change.

`python -m benchmarks.steadiness --runs {runs}`: a queue with one server and Poisson arrivals, in ten windows. Each cell
has the share of {runs} runs. M/M/1 has exponential service times, M/D/1 constant ones; the number is the load.

## Steady servers: false alarms of steady_state

{steady}

## Steady servers: false alarms of achieved_rate

{achieved}

## Changes that steady_state sees

The service times grow over the run, or are longer from the middle on. In the last rows the share of requests that are
slow by {tail} service times grows over the run.

{seen}

## Overload that achieved_rate sees

{overload}
"""


@dataclass(frozen=True)
class Change:
    """A change of the server over the measured interval, whose time runs from 0 to 1."""

    name: str
    factor: Callable[[Floats], Floats] = np.ones_like
    slow: Callable[[Floats], Floats] | None = None
    """Share of the requests that are slow."""


STILL = Change("none")
CHANGES = [
    *(Change(f"grow to {f:g} times", lambda x, f=f: 1 + (f - 1) * x) for f in (1.2, 1.5, 2.0)),  # type: ignore[misc]
    *(Change(f"{f:g} times from the middle", lambda x, f=f: np.where(x > 0.5, f, 1)) for f in (1.5, 2.0)),  # type: ignore[misc]
    *(Change(f"tail from 0.5 to {t:.0%}", slow=lambda x, t=t: 0.005 + (t - 0.005) * x) for t in (0.02, 0.05)),  # type: ignore[misc]
]


@dataclass(frozen=True)
class Server:
    """A queue with one server."""

    service: Draw
    load: float

    @property
    def name(self) -> str:
        """Kendall's name and the load."""
        return f"{'M/D/1' if self.service is constant else 'M/M/1'} {self.load:g}"


def alarms(server: Server, rate: float, seconds: float, change: Change, rng: np.random.Generator) -> tuple[bool, bool]:
    """Simulate one run: return whether steady_state and achieved_rate fail."""
    settled = SETTLED_S if server.load < 1 else 3.0
    arrivals = np.cumsum(rng.exponential(1 / rate, int(rate * (settled + seconds) * 1.2) + 100))
    arrivals = arrivals[arrivals < settled + seconds]
    place = np.clip((arrivals - settled) / seconds, 0, 1)
    took = server.service(rng, (1, len(arrivals)))[0] * change.factor(place) * server.load / rate
    latency = sojourn(np.diff(arrivals, prepend=0)[None], took[None])[0]
    if change.slow is not None:
        latency = latency + (rng.random(len(latency)) < change.slow(place)) * TAIL * server.load / rate
    return _alarms(arrivals - settled, latency, seconds)


def _alarms(arrivals: Floats, latency: Floats, seconds: float) -> tuple[bool, bool]:
    edges = np.linspace(0, seconds, WINDOWS + 1)
    unfinished = np.searchsorted(arrivals, edges) - np.searchsorted(np.sort(arrivals + latency), edges)
    inside = arrivals >= 0
    windows = np.minimum(arrivals[inside] / seconds * WINDOWS, WINDOWS - 1).astype(int)
    measured = latency[inside]
    p50 = [float(np.median(measured[windows == n])) for n in range(WINDOWS) if (windows == n).any()]
    slow = np.bincount(windows[measured > np.quantile(measured, 0.99)], minlength=WINDOWS).tolist()
    moved = drift(p50, carry_over=True) is not None or tail_growth(slow) is not None
    growth = int(unfinished[-1] - unfinished[0])
    chance = 3 * math.sqrt(unfinished[0] + unfinished[-1]) / len(measured)
    behind = growth / len(measured) > max(1 - ACHIEVED_SHARE, chance) and is_growing(np.diff(unfinished).tolist())
    return moved, behind


def _table(rows: Sequence[tuple[Server, Change]], runs: int, alarm: int) -> str:
    heads = " | ".join(f"{rate:g}/s, {seconds:g} s" for rate, seconds in LENGTHS)
    lines = [f"| server | change | {heads} |", f"|---|---|{'---:|' * len(LENGTHS)}"]
    for server, change in rows:
        rng = np.random.default_rng(1)
        shares = [
            np.mean([alarms(server, rate, seconds, change, rng)[alarm] for _ in range(runs)])
            for rate, seconds in LENGTHS
        ]
        lines.append(f"| {server.name} | {change.name} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    return "\n".join(lines)


def page(runs: int) -> str:
    """Simulate all cells and write the page."""
    steady = [(Server(service, load), STILL) for service in (exponential, constant) for load in STEADY]
    over = [(Server(service, load), STILL) for service in (exponential, constant) for load in OVERLOADED]
    seen = [(Server(service, 0.3), change) for service in (exponential, constant) for change in CHANGES]
    seen += [(Server(exponential, 0.6), change) for change in CHANGES]
    tables = [_table(rows, runs, alarm) for rows, alarm in ((steady, 0), (steady, 1), (seen, 0), (over, 1))]
    return PAGE.format(runs=runs, tail=TAIL, steady=tables[0], achieved=tables[1], seen=tables[2], overload=tables[3])


def main() -> None:
    """Run the program."""
    options = page_parser(__doc__).parse_args()
    put(page(options.runs), options.out)


if __name__ == "__main__":
    main()
