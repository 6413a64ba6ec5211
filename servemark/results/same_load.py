"""Identity of a load: runs with the same load may be compared as repeats."""

import json

from servemark.results.schema.load import Scenario

_MEASURED = {"measured_s"}
_WARM_UP = {"warmup_s", "warmup"}
"""The warm-up comes before the measured interval, and `auto` gives each run another one."""
_NAMES = {"file"}
"""A trace is identified by its digest, not by its file's path."""


def load_key(scenario: Scenario) -> str:
    """Return a text that is equal for equal loads: each field of the load as it was asked for is part of it."""
    load = {key: value for key, value in scenario.items() if key not in _MEASURED | _WARM_UP}
    if trace := scenario["trace"]:
        load["trace"] = {key: value for key, value in trace.items() if key not in _NAMES}
    return json.dumps(load, sort_keys=True)
