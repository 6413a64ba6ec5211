"""Writes snapshots to a Prometheus remote-write receiver.

Source: Prometheus Remote-Write 1.0 specification: a WriteRequest in protobuf, in snappy's block format, labels in the
order of their names. Version 1.0 has samples only, so that histograms go as classic buckets.
"""

from servemark.protobuf import Messages
from servemark.telemetry.metrics.exposition import Families
from servemark.telemetry.metrics.push import Send, now_ms, post
from servemark.telemetry.metrics.snapshot import Snapshot

HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
    "User-Agent": "servemark",
}

_messages = Messages(
    "prometheus",
    {
        "Label": "name string 1, value string 2",
        "Sample": "value double 1, timestamp int64 2",
        "TimeSeries": "labels Label* 1, samples Sample* 2",
        "WriteRequest": "timeseries TimeSeries* 1",
    },
)
_message, parse = _messages.message, _messages.parse


def to_receiver(url: str) -> Send:
    """What sends to the receiver at this URL."""
    from cramjam import snappy

    def send(snapshot: Snapshot) -> None:
        post("POST", url, HEADERS, bytes(snappy.compress_raw(write_request(snapshot, now_ms()))))

    return send


def write_request(snapshot: Snapshot, time_ms: int) -> bytes:
    """Every sample of a snapshot as a series of one sample at that time; a label without a value is left out."""
    series = []
    for family in Families(snapshot).collect():
        for sample in family.samples:
            labels = {"__name__": sample.name, **{k: v for k, v in sample.labels.items() if v}}
            series.append(
                _message(
                    "TimeSeries",
                    labels=[_message("Label", name=name, value=labels[name]) for name in sorted(labels)],
                    samples=[_message("Sample", value=sample.value, timestamp=time_ms)],
                )
            )
    serialised: bytes = _message("WriteRequest", timeseries=series).SerializeToString()
    return serialised
