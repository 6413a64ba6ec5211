"""servemark's own generator: Locust with the identity model's locustfile, as a user would start it."""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.rig import cpu_meter
from benchmarks.rig.load import Endpoints, Figures, Load
from servemark.figures.registry import count_of, value_of
from servemark.paths import CHECKOUT
from servemark.results import directory

LOCUSTFILE = "identity_locustfile.py"
WARMUP_S = 1.0


def measure(server: Endpoints, load: Load, seconds: float, *, checkout: Path = CHECKOUT) -> Figures:
    """Run the generator in `checkout` once; it must not have lost a request."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = command(server, load, seconds, Path(folder), checkout)
        if load.one_input is not None:
            image = np.random.default_rng(0).random(load.one_input, dtype=np.float32)
            np.savez(Path(folder, "input.npz"), INPUT0=image)
            arguments += ["--input-data", folder]
        # Locust puts the working directory first on sys.path.
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        done = cpu_meter.run([sys.executable, *arguments], server.counter(load.model), seconds, environment, checkout)
        results = list(Path(folder, "results").glob("*/result.json"))
        if not results:
            raise SystemExit(f"locust failed ({done.code}):\n{done.output}")
        result = directory.read(results[0])
    if count_of(result, "errors.count"):
        raise SystemExit(f"requests failed: {result['details']['errors']}")
    throughput, p50 = value_of(result, "throughput.requests") or 0.0, value_of(result, "latency.p50") or 0.0
    return Figures(throughput, p50, done.cpu_us)


def command(server: Endpoints, load: Load, seconds: float, folder: Path, checkout: Path = CHECKOUT) -> list[str]:
    """Return what Python is started with, in the checkout; the result is written below `folder`."""
    [locustfile] = (checkout / "benchmarks").rglob(LOCUSTFILE)
    found = ["-m", "locust", "-f", str(locustfile), "--headless", "--only-summary", "--skip-log-setup"]
    # The harness decides for both sides whether cores idle.
    found += ["--cpu-latency-qos", "off", "--warmup", f"{WARMUP_S:g}", "--duration", f"{seconds:g}"]
    return [*found, "--out", f"{folder}/results", *flags(load, server.of(load))]


def flags(load: Load, url: str) -> list[str]:
    """Return Locust's arguments for this load."""
    arguments = ["--host", f"{load.protocol}://{url}", "--model", load.model, "--model-name", load.model]
    arguments += ["--shared-memory", load.shared_memory]
    if load.streaming:
        arguments.append("--streaming")
    if load.tensor_format != "binary":
        arguments += ["--input-tensor-format", load.tensor_format, "--output-tensor-format", load.tensor_format]
    return [*arguments, "--users", str(load.concurrency)]
