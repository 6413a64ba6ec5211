"""Documents as pages with plots. Reads documents only."""

import importlib.util

from servemark.output import note


def can_plot(page: str) -> bool:
    """Whether plotly is there; where it is missing, say which page there is not."""
    found = importlib.util.find_spec("plotly") is not None
    if not found:
        note(f"no {page} without plotly: pip install 'servemark[plots]'")
    return found
