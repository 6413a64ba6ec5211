"""What limited a run: the server, the generator or the network between them, and from which evidence."""

from collections.abc import Mapping, Sequence, Set
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
    (those that did waited for answers), unless the server overloads by its own figures. Nothing, where an open loop's
    requests were all answered, and in time. Otherwise what the time between sending and answer was spent on: the
    server's own share, by Triton's statistics, against the rest.
    """
    failed = {c["name"] for c in constraints if not c["ok"]}
    limits = {c["name"]: c["limit"] for c in constraints}
    client = metrics["client"]
    delay_ms, limit_ms = client["own_delay_p99_ms"] or 0.0, limits.get("schedule_delay_p99")
    late = limit_ms is not None and delay_ms > limit_ms
    if ("client_cpu" in failed or late) and not _overloads(metrics, failed, limits.get("slo"), delay_ms):
        if "client_cpu" in failed:
            return _found(GENERATOR, f"it used {client['cpu_share']:.0%} of its core")
        return _found(GENERATOR, f"it sent {delay_ms:,.3g} ms late at p99 (limit {limit_ms:,.3g} ms)")
    waited = client["waited_share"] or 0.0
    if open_loop and not failed & _KEPT_UP and not waited:
        return _found(None, "nothing: the scheduled load was done")
    by, evidence = _longest(metrics)
    return _found(by, f"{evidence}; {waited:.0%} of the requests waited for --max-in-flight" if waited else evidence)


def _overloads(metrics: Mapping[str, Any], failed: Set[str], slo_ms: float | None, delay_ms: float) -> bool:
    """Whether the server is too slow by its own statistics, which hold nothing of the generator's delay.

    The service time would not do: a generator that gets no CPU also reads its answers late.
    """
    inside_ms = _inside_ms(metrics)
    if inside_ms is None:
        return False
    return ("slo" in failed and slo_ms is not None and inside_ms > slo_ms) or (
        "achieved_rate" in failed and inside_ms > delay_ms
    )


def _inside_ms(metrics: Mapping[str, Any]) -> float | None:
    """Mean time of a request inside the server."""
    steps = [metrics["server"][f"{step}_ms"] for step in _STEPS]
    return None if None in steps else float(sum(steps))


def _longest(metrics: Mapping[str, Any]) -> tuple[str | None, str]:
    """Where a request spent most of the time between sending and answer."""
    service_ms, server = metrics["service_time_ms"]["mean"], metrics["server"]
    if service_ms is None:
        return None, "not known: no request succeeded"
    inside_ms = _inside_ms(metrics)
    if inside_ms is None:
        return None, f"server or network: {service_ms:,.3g} ms service time, and the server gives no statistics"
    if inside_ms < SERVERS_SHARE * service_ms:
        rest = "the rest is the way there and the server's front end"
        return NETWORK, f"queue and compute {inside_ms:,.3g} ms of {service_ms:,.3g} ms service time; {rest}"
    step = max(_STEPS, key=lambda name: float(server[f"{name}_ms"]))
    return SERVER, f"{step.replace('_', ' ')} {server[f'{step}_ms']:,.3g} ms of {service_ms:,.3g} ms service time"


def _found(by: str | None, evidence: str) -> dict[str, str | None]:
    return {"by": by, "evidence": evidence}
