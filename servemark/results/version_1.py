"""Documents of schema version 1, in which a latency objective was a constraint named `slo`, read as version 2."""

from typing import Any

from servemark.results.objectives import MET, MISSED, Slo, overall
from servemark.results.verdict import exit_code_of


def upgraded(document: dict[str, Any]) -> dict[str, Any]:
    """The same document as version 2 has it.

    Whatever in it was judged had `slo` among its constraints: a run, a part of a mix, a rate of a search, a round.
    """
    return {**_upgraded(document), "schema_version": 2}


def _upgraded(part: Any) -> Any:
    if isinstance(part, list):
        return [_upgraded(item) for item in part]
    if not isinstance(part, dict):
        return part
    found = {key: _upgraded(value) for key, value in part.items()}
    if found.get("metrics") and found.get("verdict") and "early_stopping" in found["metrics"]:
        return _run(found)
    if "constraints" in found and "exit_code" in found:
        return _verdict(found)
    if "valid" in found and isinstance(found.get("failed"), list):
        missed = "slo" in found["failed"]
        failed = [name for name in found["failed"] if name != "slo"]
        return {**found, "valid": not failed, "failed": failed, "objective": MISSED if missed else MET}
    return found


def _run(found: dict[str, Any]) -> dict[str, Any]:
    """A run, or a part of a mix: what it shows of the objective stood among the figures."""
    stopping = dict(found["metrics"]["early_stopping"])
    shown = stopping.pop("slo", None)
    objectives = found["verdict"]["objectives"]
    if shown is not None and len(objectives) == 1:
        known = {key: shown[key] for key in ("requests", "over", "holds", "more_requests")}
        objectives = [{**objectives[0], "shown": {"confidence": stopping["confidence"], **known}}]
    return {
        **found,
        "metrics": {**found["metrics"], "early_stopping": stopping},
        "verdict": {**found["verdict"], "objectives": objectives},
    }


def _verdict(found: dict[str, Any]) -> dict[str, Any]:
    """Convert a verdict; the constraint is `slo`, in a mix `WORKLOAD.slo`."""
    slos = [each for each in found["constraints"] if each["name"].rpartition(".")[2] == "slo"]
    constraints = [each for each in found["constraints"] if each not in slos]
    objectives = [_objective(each) for each in slos]
    valid, objective = all(each["ok"] for each in constraints), overall(objectives)
    return {
        **found,
        "valid": valid,
        "objective": objective,
        "exit_code": int(exit_code_of(valid, objective)),
        "constraints": constraints,
        "objectives": objectives,
    }


def _objective(constraint: dict[str, Any]) -> Any:
    """Convert the constraint `slo`, whose unit was "ms at p99"."""
    percentile = float(constraint["unit"].rpartition("p")[2])
    slo = Slo(percentile, constraint["limit"])
    return {
        "objective": f"{constraint['name'].removesuffix('slo')}{slo}",
        "figure": slo.figure.value,
        "percentile": percentile,
        "status": MET if constraint["ok"] else MISSED,
        "value": constraint["value"],
        "limit": slo.limit,
        "unit": "ms",
        "remedy": constraint["remedy"],
        "shown": None,
    }
