"""A scenario in words: what load a run put on the server."""

from servemark.results.schema.run import MaxRateSearch, Scenario

SHOWN_STAGES = 6


def describe(scenario: Scenario) -> str:
    """What a row of a table says: "400/s poisson", "concurrency 8", "10 s at 100/s, 10 s at 400/s constant"."""
    distribution = scenario["distribution"]
    match scenario["mode"]:
        case "closed":
            return f"concurrency {scenario['concurrency']}"
        case "stages":
            stages = [f"{stage['duration_s']:g} s at {stage['rate']:g}/s" for stage in scenario["stages"] or []]
            more = f", {len(stages) - SHOWN_STAGES} more" if len(stages) > SHOWN_STAGES else ""
            return f"{', '.join(stages[:SHOWN_STAGES])}{more} {distribution}"
        case "trace":
            trace = scenario["trace"]
            assert trace is not None
            first = f" from {trace['first']}" if trace.get("first") else ""
            speed = trace.get("speed", 1.0)
            faster = "" if speed == 1 else f" at {speed:g} times the speed"
            return f"trace {trace['file']}, {trace['arrivals']:,} arrivals{first}{faster}"
        case _:
            return f"{scenario['requested_rate']:g}/s {distribution}"


def title(scenario: Scenario) -> str:
    """What a report's title says: open or closed loop, and the load."""
    match scenario["mode"]:
        case "closed":
            return f"closed loop, {describe(scenario)}"
        case "max-rate":
            return f"highest rate, {scenario['distribution']} {scenario['requested_rate']:.5g} requests/s"
        case "mix":
            return f"open loop, {scenario['distribution']} {scenario['requested_rate']:g} requests/s in all"
        case "open":
            return f"open loop, {scenario['distribution']} {scenario['requested_rate']:g} requests/s"
        case _:
            return f"open loop, {describe(scenario)}"


def answer(found: MaxRateSearch, slo: str) -> str:
    """What a search for the highest rate found, in one sentence."""
    rate = "none" if found["rate"] is None else f"{found['rate']:,.4g} requests/s"
    low, high = found["ci95"] or (None, None)
    interval = f" (95 % interval {low:,.4g} to {high:,.4g})" if low is not None and high is not None else ""
    least = "at least " if interval == "" and low is not None else ""
    return f"highest rate with {slo}: {least}{rate}{interval}; {found['reason'].removeprefix('at least: ')}"
