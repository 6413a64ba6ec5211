"""servemark's load generator against perf_analyzer on one embedded Triton: throughput and latency.

    python -m benchmarks.generator [--protocol http|grpc] [--streaming] [--pairs 5] [--seconds 6]

Both drive the same identity model (FP32[64], a request of about 450 bytes), in turns. Aims over HTTP: throughput at
concurrency 32 at least 1.5 times perf_analyzer's, p50 at concurrency 1 at most 0.85 times; over gRPC: throughput at
least 1.0 times.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import servers
from benchmarks import perf_analyzer
from benchmarks.pairs import interleave
from servemark.ratios import ratio_of_pairs

HERE = Path(__file__).parent
TIMEOUT_S = 120


def locust(url: str, concurrency: int, seconds: float, *, streaming: bool = False) -> dict[str, float]:
    """One run of Locust with servemark's load generator; the URL's scheme is the protocol."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "locust", "-f", str(HERE / "identity_locustfile.py"), "--headless"]
        command += ["--only-summary", "--skip-log-setup", "--host", url, "--model-name", "identity"]
        command += ["--streaming"] * streaming
        command += ["--users", str(concurrency), "--duration", str(seconds), "--warmup", "1", "--result-dir", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        result = Path(folder, "result.json")
        if not result.exists():
            raise SystemExit(f"locust failed ({done.returncode}):\n{done.stdout}{done.stderr}")
        metrics = json.loads(result.read_text())["metrics"]
    if metrics["errors"]["count"]:
        raise SystemExit(f"requests failed: {metrics['errors']}")
    return {
        "requests_per_s": metrics["throughput"]["requests_per_s"],
        "p50_ms": metrics["latency_ms"]["p50"],
        "cpu_share": metrics["client"]["cpu_share"],
    }


def main() -> None:
    """Print both ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", choices=["http", "grpc"], default="http")
    parser.add_argument("--streaming", action="store_true", help="gRPC: one stream for each connection")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    options = parser.parse_args()
    if options.streaming and options.protocol != "grpc":
        parser.error("--streaming needs --protocol grpc")
    with servers.open_server("embedded", HERE / "model_repo", ["identity"]) as server:
        address = server.grpc if options.protocol == "grpc" else server.http

        def ours(concurrency: int) -> dict[str, float]:
            url = f"{options.protocol}://{address}"
            return locust(url, concurrency, options.seconds, streaming=options.streaming)

        def theirs(concurrency: int) -> dict[str, float]:
            return perf_analyzer.measure(
                "identity", address, concurrency, options.seconds, options.protocol, streaming=options.streaming
            )

        for name, key, concurrency in (("throughput", "requests_per_s", 32), ("p50", "p50_ms", 1)):
            print(f"{name} at concurrency {concurrency} ({key}), servemark against perf_analyzer:")
            found = interleave(
                lambda c=concurrency, k=key: ours(c)[k],  # type: ignore[misc]
                lambda c=concurrency, k=key: theirs(c)[k],  # type: ignore[misc]
                options.pairs,
            )
            print(f"{name} ratio servemark / perf_analyzer: {ratio_of_pairs(found)}\n")


if __name__ == "__main__":
    main()
