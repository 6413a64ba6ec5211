"""Readings of the machines during one run: this one's meters, and the server's own metrics beside them."""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from http.client import HTTPException

from prometheus_client.parser import text_string_to_metric_families

from servemark.documents.live import Exporter
from servemark.results.schema.header import SCHEMA_VERSION
from servemark.results.schema.run import MachineSeries
from servemark.telemetry.energy.meter import Meter, UnavailableError
from servemark.telemetry.http_request import ask, place_of
from servemark.telemetry.os_threads import native
from servemark.telemetry.recording import Column, Reading
from servemark.telemetry.sampler import Sampler, open_sampler

PREFIXES = ("nv_inference_", "nv_gpu_", "nv_energy_", "nv_cpu_")
MAX_LINES = 2000
"""Of those that are parsed; a model on 16 GPUs has some 200."""
SCRAPE_PERIOD_S = 1.0


def scrape(url: str, model: str | None, *, prefixes: tuple[str, ...] = PREFIXES, timeout_s: float = 1.0) -> Reading:
    """Read metrics whose names begin with one of the prefixes; of a model, those that name it or no model.

    Raises UnavailableError, also where there are none.
    """
    endpoint, path = place_of(url)
    try:
        # Under gevent too a socket of the operating system: its loop is the load generator's.
        reply = ask(endpoint, path, timeout_s=timeout_s, make_socket=native("socket", "socket"))
        if reply.status != HTTPStatus.OK:
            raise HTTPException(f"answered {reply.status}")
        found = metrics_in(reply.body.decode(errors="replace"), model, prefixes)
    except (OSError, HTTPException, ValueError) as error:
        raise UnavailableError(f"{url}: {str(error) or type(error).__name__}") from error
    if not found:
        raise UnavailableError(f"{url}: no metric begins with {' or '.join(prefixes)}")
    return found


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


class RunTelemetry:
    """Threads that read while a run goes on, each at its rate. None of them can stop the run.

    This machine's meters are read `rate_hz` times a second, of its GPUs those with these numbers in CUDA, or all, and
    `meters` besides. The server's metrics of `model` are read once a second where their URL is known, and those of
    other exporters too. With a rate of 0 nothing is read.
    """

    def __init__(
        self,
        rate_hz: float,
        *,
        gpus: Sequence[int] | None = None,
        meters: Sequence[Meter] = (),
        metrics_url: str | None = None,
        model: str = "",
        exporters: Sequence[Exporter] = (),
    ) -> None:
        self._machine = open_sampler(rate_hz, gpus, meters) if rate_hz else None
        self._server: Sampler | None = None
        if rate_hz and metrics_url:
            self._server = Sampler("triton", {"metrics": partial(scrape, metrics_url, model)}, SCRAPE_PERIOD_S)
        others = [
            Sampler(each.name, {"metrics": partial(scrape, each.url, None, prefixes=each.prefixes)}, SCRAPE_PERIOD_S)
            for each in (exporters if rate_hz else ())
        ]
        self._samplers = [*(each for each in (self._machine, self._server) if each is not None), *others]
        self._start_s = self._end_s = 0.0
        self._start_epoch_s = 0.0

    def start(self) -> None:
        """Begin to read."""
        self._start_s, self._start_epoch_s = time.monotonic(), time.time()
        for sampler in self._samplers:
            sampler.start()

    def stop(self) -> None:
        """Read no more; what was read stays."""
        self._end_s = time.monotonic()
        for sampler in self._samplers:
            sampler.stop()

    def latest(self) -> Mapping[Column, float]:
        """The newest values of this machine's meters; any thread may ask."""
        return self._machine.latest() if self._machine is not None else {}

    def latest_of_server(self) -> Mapping[Column, float]:
        """The newest values of the server's own metrics."""
        return self._server.latest() if self._server is not None else {}

    @property
    def cpu_utilization(self) -> float | None:
        """Share of one core that the reading took. None: nothing was read."""
        if not self._samplers:
            return None
        return sum(sampler.cpu_s for sampler in self._samplers) / max(self._end_s - self._start_s, 1e-9)

    def to_dict(self, measured_ns: tuple[int, int]) -> MachineSeries | None:
        """Return the content of series.json with the measured interval (monotonic ns). None: nothing was read."""
        if not self._samplers:
            return None
        measured_from_s, measured_until_s = (round(time_ns / 1e9 - self._start_s, 6) for time_ns in measured_ns)
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": "machine_series",
            "start_epoch_s": self._start_epoch_s,
            "measured_from_s": measured_from_s,
            "measured_until_s": measured_until_s,
            "series": [sampler.to_dict(self._start_s) for sampler in self._samplers],
        }
