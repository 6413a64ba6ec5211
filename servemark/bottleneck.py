"""What limited a run: the server, the generator or the network between them, and from which evidence."""

from collections.abc import Mapping, Sequence
from typing import Any

SERVER, GENERATOR, NETWORK = "server", "generator", "network"
SERVERS_SHARE = 0.5
"""A server that accounts for at least this share of the service time is what it is spent on."""
_KEPT_UP = frozenset({"achieved_rate", "slo", "error_share"})
_STEPS = ("queue", "compute_input", "compute_infer", "compute_output")


def bottleneck(
    metrics: Mapping[str, Any], constraints: Sequence[Mapping[str, Any]], *, open_loop: bool
) -> dict[str, str | None]:
    """Name what limited a run, `by` with its `evidence`; `by` is None where nothing did or it cannot be told.

    The generator, where its CPU is used up, or where it is late with requests that did not wait for --max-in-flight
    (those that did waited for answers). Nothing, where an open loop's requests were all answered, and in time.
    Otherwise what the time between sending and answer was spent on: the server's own share, by Triton's statistics,
    against the rest.
    """
    failed = {c["name"] for c in constraints if not c["ok"]}
    client = metrics["client"]
    if "client_cpu" in failed:
        return _found(GENERATOR, f"it used {client['cpu_share']:.0%} of its core")
    delay_ms = client["own_delay_p99_ms"]
    limit_ms = next((c["limit"] for c in constraints if c["name"] == "schedule_delay_p99"), None)
    if delay_ms is not None and limit_ms is not None and delay_ms > limit_ms:
        return _found(GENERATOR, f"it sent {delay_ms:,.3g} ms late at p99 (limit {limit_ms:,.3g} ms)")
    waited = client["waited_share"] or 0.0
    if open_loop and not failed & _KEPT_UP and not waited:
        return _found(None, "nothing: the scheduled load was done")
    by, evidence = _longest(metrics)
    return _found(by, f"{evidence}; {waited:.0%} of the requests waited for --max-in-flight" if waited else evidence)


def _longest(metrics: Mapping[str, Any]) -> tuple[str | None, str]:
    """Where a request spent most of the time between sending and answer."""
    service_ms, server = metrics["service_time_ms"]["mean"], metrics["server"]
    if service_ms is None:
        return None, "not known: no request succeeded"
    steps = {step: server[f"{step}_ms"] for step in _STEPS}
    if None in steps.values():
        return None, f"server or network: {service_ms:,.3g} ms service time, and the server gives no statistics"
    inside_ms = sum(steps.values())
    if inside_ms < SERVERS_SHARE * service_ms:
        rest = "the rest is the way there and the server's front end"
        return NETWORK, f"queue and compute {inside_ms:,.3g} ms of {service_ms:,.3g} ms service time; {rest}"
    step = max(steps, key=lambda name: float(steps[name]))
    return SERVER, f"{step.replace('_', ' ')} {steps[step]:,.3g} ms of {service_ms:,.3g} ms service time"


def _found(by: str | None, evidence: str) -> dict[str, str | None]:
    return {"by": by, "evidence": evidence}
