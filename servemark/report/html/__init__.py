"""Documents as pages with plots. Reads documents only."""

import html
import importlib.util
import math
import shlex
from collections.abc import Sequence

from servemark.output import note
from servemark.results.objectives import parse_objectives
from servemark.results.schema.run import Result

HOLLOW = "hollow: the run is INVALID"


def can_plot(page: str, *, quiet: bool = False) -> bool:
    """Whether plotly is there; where it is missing, say which page there is not, unless it is to be quiet."""
    found = importlib.util.find_spec("plotly") is not None
    if not found and not quiet:
        note(f"no {page} without plotly: pip install 'servemark[plots]'")
    return found


def measured(result: Result) -> str:
    """What was measured, when and how, for a page's title."""
    where = ", ".join(str(result[key] or "?") for key in ("engine", "device", "precision", "protocol"))
    what = f"{result['workload']} on {where}, batch {result['batch_size']}; {result['created'][:16].replace('T', ' ')}"
    return html.escape(f"{what}\n{shlex.join(result['command'])}").replace("\n", "<br>")


def limits(result: Result) -> list[tuple[str, float]]:
    """The objectives on a latency, in words and in ms: a line each."""
    found = [slo for slo in parse_objectives(result["config"]["slo"] or "") if slo.timed]
    return [(f"objective {slo.name} {slo.limit:g} ms", slo.limit) for slo in found]


def ticks(values: Sequence[float]) -> list[float]:
    """1, 2, 5, 10, ... around all values: plotly's own labels of a logarithmic axis leave out the power of ten."""
    if not values:
        return []
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [step * 10.0**power for power in range(low, high + 1) for step in (1, 2, 5)]
