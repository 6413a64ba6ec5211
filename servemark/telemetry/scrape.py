"""Prometheus metrics read while a run goes on: Triton's own of a model and its GPUs, and any other exporter's.

Source: Triton user guide, "Metrics".
"""

from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPException
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from servemark.telemetry.energy.meter import UnavailableError
from servemark.telemetry.http_request import ask
from servemark.telemetry.os_threads import native
from servemark.telemetry.recording import Column, Reading

PREFIXES = ("nv_inference_", "nv_gpu_", "nv_energy_", "nv_cpu_")
MAX_LINES = 2000
"""Of those that are parsed; a model on 16 GPUs has some 200."""


class Scrape:
    """Metrics at a URL whose names begin with one of the prefixes; of a model, those that name it or no model."""

    def __init__(
        self, url: str, model: str | None, timeout_s: float = 1.0, *, prefixes: tuple[str, ...] = PREFIXES
    ) -> None:
        self._url, self._model, self._timeout_s, self._prefixes = url, model, timeout_s, prefixes

    def read(self) -> Reading:
        """Ask for them. Raises UnavailableError."""
        parts = urlsplit(self._url)
        try:
            # Under gevent too a socket of the operating system: its loop is the load generator's.
            reply = ask(
                parts.netloc, parts.path or "/", timeout_s=self._timeout_s, make_socket=native("socket", "socket")
            )
            if reply.status != HTTPStatus.OK:
                raise HTTPException(f"answered {reply.status}")
            return metrics_in(reply.body.decode(errors="replace"), self._model, self._prefixes)
        except (OSError, HTTPException, ValueError) as error:
            raise UnavailableError(f"{self._url}: {str(error) or type(error).__name__}") from error


def metrics_in(text: str, model: str | None, prefixes: tuple[str, ...] = PREFIXES) -> Reading:
    """Figures in Prometheus' text format, with a `model` its own and those of no model. Raises ValueError."""
    found: dict[Column, float | str] = {}
    for family in text_string_to_metric_families("\n".join(_concerning(text, model, prefixes)) + "\n"):
        for sample in family.samples:
            if (model is None or sample.labels.get("model", model) == model) and "le" not in sample.labels:
                labels, counter = tuple(sorted(sample.labels.items())), family.type == "counter"
                # The parser gives counters the suffix that Triton's names lack.
                name = sample.name.removesuffix("_total") if counter and model is not None else sample.name
                found[Column(name, "", labels, counter)] = float(sample.value)
    return found


def _concerning(text: str, model: str | None, prefixes: tuple[str, ...]) -> Iterator[str]:
    """The lines that may be wanted: to parse all of them would take ten times as long."""
    lines = 0
    quoted = f'model="{model}"'
    for line in text.split("\n"):
        name = line.removeprefix("# TYPE ")
        if not name.startswith(prefixes) or name.startswith("#"):
            continue
        if model is None or name is not line or quoted in line or 'model="' not in line:
            lines += 1
            if lines > MAX_LINES:
                return
            yield line
