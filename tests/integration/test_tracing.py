"""A traced cold start of a real Triton: its time to load is known, and its spans are children of the generator's."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from servemark.figures.registry import value_of
from tests.support.command_line import Servemark
from tests.support.exporting import Exports
from tests.support.locust_run import accounted
from tests.support.receiver import Receiver, receiver
from tests.support.triton import triton_only

pytestmark = triton_only
TINY = "ranking_tiny"
LOAD = ["--request-rate", "50", "--request-distribution", "constant", "--duration", "1.2", "--cold-start"]
EXPORTED_S = 20.0
"""Triton sends its spans in batches, 5 s apart, and what is left when it ends."""


@dataclass(frozen=True)
class Span:
    """Place of a span in its trace; IDs in hexadecimal."""

    service: str
    name: str
    trace: str
    own: str
    parent: str


def spans(found: Receiver) -> Iterator[Span]:
    """All that came: Triton writes OTLP's JSON, in which IDs are hexadecimal, and our SDK protobuf."""
    for _, path, headers, body in found.requests:
        if path != "/v1/traces":
            continue
        if headers["content-type"] == "application/json":
            for resource in json.loads(body)["resourceSpans"]:
                [service] = [a["value"] for a in resource["resource"]["attributes"] if a["key"] == "service.name"]
                for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
                    ids = span["traceId"], span["spanId"], span.get("parentSpanId", "")
                    yield Span(service["stringValue"], span["name"], *ids)
            continue
        for each in ExportTraceServiceRequest.FromString(body).resource_spans:
            [name] = [a.value.string_value for a in each.resource.attributes if a.key == "service.name"]
            for span in (span for scope in each.scope_spans for span in scope.spans):
                yield Span(name, span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())


def test_triton_is_started_for_the_run_and_its_spans_are_children_of_the_generator_s(
    exported: Exports, servemark: Servemark, tmp_path: Path
) -> None:
    exported(TINY, "onnxruntime")
    with receiver() as found:
        flags = ["--otlp", found.url, "--otlp-sample", "10", "--out", str(tmp_path), "--slo", "cold-start:60s"]
        done = servemark("run", TINY, *LOAD, *flags, "--model-repository", str(exported.repository), "--json")
        deadline = time.monotonic() + EXPORTED_S
        while not any(span.service == "triton" for span in spans(found)) and time.monotonic() < deadline:
            time.sleep(0.1)
    ours = {(span.trace, span.own) for span in spans(found) if span.service == "servemark"}
    triton = [span for span in spans(found) if span.service == "triton"]
    assert len(ours) == 6  # of 60
    assert {(span.trace, span.parent) for span in triton if span.name == "InferRequest"} == ours
    assert {span.name for span in triton} >= {"InferRequest", f"{TINY}_onnxruntime"}
    assert {span.trace for span in triton} == {trace for trace, _ in ours}, "others are traced too"
    result = json.loads(done.out)
    cold = result["cold_start"]
    assert cold["load_s"] > 0.05
    assert cold["waited_s"] > 0
    assert cold["first_answer_ms"] > 0
    assert "fewer than 12 whole seconds" in cold["steady_after_s_reason"]
    assert result["verdict"]["objective"] == "undecided"
    # its first request is the load's
    assert (result["scenario"]["warmup_s"], value_of(result, "generator.requests_outside_interval")) == (0, 0)
    assert result["engine"] == "onnxruntime"
    assert accounted(result) == 60
