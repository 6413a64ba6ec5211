"""Results of schema 4, which held their figures as nested groups, as results of schema 5. Goes with the next schema."""

from collections.abc import Iterator, Mapping
from typing import Any

from servemark.figures.registry import registry

VERSION = 4
_DISTRIBUTIONS = {
    "latency_ms": "latency",
    "service_time_ms": "service_time",
    "schedule_delay_ms": "schedule_delay",
    "clock.send_error_ms": "send_error",
    "sequences.duration_ms": "sequence",
    "answers.first_ms": "first_answer",
    "answers.between_ms": "between_answers",
    "connections.connect_ms": "connect",
    "connections.tls_ms": "tls",
    "connections.first_byte_ms": "first_byte",
    "connections.receive_ms": "receive",
    "cancellation.given_up_ms": "given_up",
}
_PERCENTILES = {"answered_latency_ms": "answered_latency", "tail_bounds.bounds_ms": "tail_bound"}


def _same(group: str, subject: str, *names: str) -> dict[str, str]:
    """Map names of a group that are those of a subject today."""
    return {f"{group}.{name}": f"{subject}.{name}" for name in names}


_FIGURES = {
    "schedule_delay_ms.late_share": "schedule_delay.late_share",
    "latency_ms.count": "requests.answered",
    "throughput.requests_per_s": "throughput.requests",
    "throughput.inferences_per_s": "throughput.inferences",
    "throughput.goodput": "throughput.goodput",
    "throughput.scheduled_rate": "throughput.scheduled",
    **_same("errors", "errors", "count", "share"),
    **_same("correctness.output_agreement", "outputs", "checked", "samples", "top1_samples", "top1_agreement"),
    **_same("correctness.output_agreement", "outputs", "max_abs_error", "max_rel_error", "cosine_min"),
    **_same("correctness.output_agreement", "outputs", "spread_error_max"),
    **_same("correctness.quality", "quality", "value", "target"),
    "energy.joules_per_inference": "energy.per_inference",
    "energy.joules_per_request": "energy.per_request",
    "energy.average_w": "energy.power",
    "energy.idle_w": "energy.idle_power",
    "energy.joules": "energy.total",
    "energy.window_s": "energy.window",
    "energy.samples": "energy.readings",
    "server.queue_ms": "server.queue",
    "server.compute_input_ms": "server.compute_input",
    "server.compute_infer_ms": "server.compute_infer",
    "server.compute_output_ms": "server.compute_output",
    "server.batch_size_mean": "server.batch_size",
    "client.cpu_utilization": "generator.cpu",
    "client.generator_delay_p99_ms": "generator.delay_p99",
    "client.sampling_cpu_utilization": "generator.sampling_cpu",
    "client.cpu_latency_us": "generator.cpu_latency",
    **_same("client", "generator", "max_in_flight", "waited_share", "workers", "requests_outside_interval"),
    **_same("clock", "clock", "unstamped", "refused", "steps"),
    "cpu.cores": "cpu.available",
    "cpu.generator_cores": "cpu.generator",
    "cpu.server_cores": "cpu.server",
    "cpu.other_cores": "cpu.other",
    "cpu.stolen_cores": "cpu.stolen",
    "cpu.other_cpu_share": "cpu.other_share",
    **_same("sequences", "sequence", "length", "in_flight", "completed", "broken"),
    "sequences.sequences_per_s": "sequence.rate",
    "answers.per_request": "answers.per_request",
    "answers.answers_per_s": "answers.rate",
    "connections.dns_ms": "connection.dns",
    **_same("compression", "compression", "request_bytes", "request_sent_bytes", "compressed_answers"),
    **_same("compression", "compression", "answer_received_bytes", "answer_bytes"),
    **_same("cancellation", "cancellation", "requests", "cancelled", "answered"),
}
"""Place of a figure in `metrics` of schema 4 -> its tag; `servemark list figures` says what each is."""
_OF_SEARCHES = ("ci95", "confirmed", "above", "bottleneck", "reason", "rates", "points")
"""Keys of a highest rate in a comparison that are of its search."""
_OF_FIGURES = {"errors": "errors.share", "throughput": "throughput.requests"}


def converted(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document of schema 4 as one of schema 5. Raises KeyError, TypeError where it is damaged."""
    found = {**document, "schema_version": 5}
    if (document.get("request") or {}).get("live"):
        live = {key: value for key, value in document["request"]["live"].items() if key != "push_gateway"}
        found["request"] = {**document["request"], "live": live}
    if "metrics" in document:
        found |= _measured(document)
    if document.get("kind") == "comparison":
        found["rows"] = [*map(_row, document["rows"])]
    if document.get("kind") in {"suite", "tuning"}:
        found["partial"] = False
    if "mix" in document and isinstance(document["mix"], list):
        found["mix"] = [{**part, **_measured(part)} for part in document["mix"]]
    if document.get("stages"):
        found["stages"] = [_stage(stage) for stage in document["stages"]]
    for each in (found, *(found.get("mix") or [])):
        if "objectives" in (each.get("verdict") or {}):  # a calibration's verdict has none
            objectives = [
                {**o, "figure": _OF_FIGURES.get(o["figure"], o["figure"])} for o in each["verdict"]["objectives"]
            ]
            each["verdict"] = {**each["verdict"], "objectives": objectives}
        each.pop("metrics", None)
    return found


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an engine's row of a comparison, whose search for the highest rate is a group of its own."""
    found = row["max_rate"]
    if not found:
        return {**row}
    own = {key: each for key, each in found.items() if key not in {*_OF_SEARCHES, "searched_rate"}}
    search = {"rate": found["searched_rate"], **_some(found, *_OF_SEARCHES)} if "confirmed" in found else None
    return {**row, "max_rate": {**own, "search": search}}


def _measured(document: Mapping[str, Any]) -> dict[str, Any]:
    metrics = document["metrics"]
    if metrics is None:
        return {"figures": None, "details": None}
    figures = dict(_figures(metrics))
    if document.get("max_rate"):
        found = document["max_rate"]
        figures["max_rate.rate"] = _value(found["rate"], "max_rate.rate", found.get("ci95"), found.get("reason"))
    details = _details(metrics)
    if document.get("kind") == "mlperf":  # its score is the whole group, and only an accuracy run has one
        score = _at(metrics, "correctness.quality")
        details = _some(details, "errors", "outputs", "cpu") | ({"quality": score} if score else {})
    return {"figures": figures, "details": details}


def _figures(metrics: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, tag in _DISTRIBUTIONS.items():
        if (group := _at(metrics, place)) is not None:
            yield from _distribution(tag, group)
    for place, tag in _PERCENTILES.items():
        for key, value in (_at(metrics, place) or {}).items():
            if not key.endswith("_reason"):
                name = f"{tag}.{key.replace('_', '.')}"
                yield name, _value(value, name, None, (_at(metrics, place) or {}).get(f"{key}_reason"))
    for place, tag in _FIGURES.items():
        above, _, key = place.rpartition(".")
        group = _at(metrics, above)
        if group is not None and key in group:
            reason = group.get(f"{key}_reason") or group.get("reason")
            yield tag, _value(group[key], tag, group.get(f"{key}_ci95"), reason)


def _distribution(tag: str, group: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for key in ("mean", "stdev", "min", "p50", "p90", "p95", "p99", "p99_9", "max"):
        if key in group:
            name = f"{tag}.{key.replace('_', '.')}"
            reason = group.get(f"{key}_reason") or group.get("reason") or group.get("no_interval", {}).get(key)
            found = _value(group[key], name, group.get("ci95", {}).get(key), reason)
            yield name, {**found, "n": group.get("count", 0) + group.get("failed", 0) * key.startswith("p")}


def _value(value: Any, tag: str, ci95: Any, reason: Any) -> dict[str, Any]:
    found = {"value": value, "unit": registry()[tag].unit.name}
    return found | ({"ci95": ci95} if ci95 else {}) | ({"reason": reason} if reason else {})


def _details(metrics: Mapping[str, Any]) -> dict[str, Any]:
    correctness, energy = metrics.get("correctness", {}), metrics.get("energy", {})
    server, client, errors = metrics.get("server", {}), metrics.get("client", {}), metrics["errors"]
    agreement, quality = correctness.get("output_agreement", {}), correctness.get("quality", {})
    messages = {
        kind: [words] if isinstance(words, str) else words for kind, words in errors.get("messages", {}).items()
    }
    found: dict[str, Any] = {
        "errors": {"by_kind": errors["by_kind"], "messages": messages},
        "outputs": _some(agreement, "tolerance", "weights"),
        "quality": {"metric": None, "dataset": None, **_some(quality, "metric", "dataset", "score")},
        "energy": {"source": None, "boundary": None, **_some(energy, "source", "boundary", "garbage_lines")},
        "server": {"batch_sizes": server.get("batch_sizes")},
        "generator": _some(client, "priority", "priority_note"),
        "cpu": _some(metrics.get("cpu") or {}, "largest_other"),
    }
    if "composing" in server:
        found["server"]["composing"] = {name: _composing(each) for name, each in server["composing"].items()}
    if "clock" in metrics:
        found["clock"] = {"receive": metrics["clock"]["receive"]}
    if metrics.get("cancellation"):
        found["cancellation"] = {"failed": metrics["cancellation"]["failed"]}
    if metrics.get("servers"):
        found["servers"] = [_server(each) for each in metrics["servers"]]
    return found


def _composing(model: Mapping[str, Any]) -> dict[str, Any]:
    figures = dict(_figures({"server": model, "errors": {}}))
    figures["server.calls"] = {"value": model["calls"], "unit": ""}
    return {"figures": figures, "batch_sizes": model["batch_sizes"] or {}}


def _server(server: Mapping[str, Any]) -> dict[str, Any]:
    figures = dict(_distribution("latency", server["latency_ms"]))
    answered = server["requests"] - server["errors"]
    figures["requests.answered"] = {"value": answered, "unit": ""}
    figures["errors.count"] = {"value": server["errors"], "unit": ""}
    return {"url": server["url"], "figures": figures, "errors_by_kind": server["errors_by_kind"]}


def _stage(stage: Mapping[str, Any]) -> dict[str, Any]:
    figures = dict(_distribution("latency", stage["latency_ms"]))
    figures["errors.count"] = {"value": stage["errors"], "unit": ""}
    figures["throughput.requests"] = {"value": stage["requests_per_s"], "unit": "requests/s"}
    return {**_some(stage, "start_s", "duration_s", "requested_rate", "scheduled"), "figures": figures}


def _some(group: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: group[key] for key in keys if key in group}


def _at(metrics: Mapping[str, Any], place: str) -> Any:
    found: Any = metrics
    for key in place.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
