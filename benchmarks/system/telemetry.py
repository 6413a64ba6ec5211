"""Cost of watching a run: a generator whose metrics are scraped every second, against one without, interleaved.

    python -m benchmarks.system.telemetry [--rate 5000] [--rounds 10] [--seconds 10] [--out docs/results/telemetry.md]

The server does nothing (`benchmarks.rig.null_server`), so that the generator is what is measured. Throughput and
schedule delay of Poisson arrivals at a rate have aims. The throughput of a closed loop has none: there generator and
server use two whole cores, and on a machine without a third one the metrics take their time from them.
"""

import argparse
import itertools
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.rig import locust_load
from benchmarks.rig.aims import Aim
from benchmarks.rig.load import Endpoints, Figures, Load
from benchmarks.rig.null_server import NullServer
from benchmarks.rig.pairs import alternate
from servemark.machine.environment import collect
from servemark.stats.ratios import mean_interval, ratio_of_pairs

SCRAPE_S = 1.0
THROUGHPUT = Aim(least=0.97)
"""Of the ratio on / off."""
DELAY_MS = Aim(most=0.05)
"""Of the mean difference on - off of the schedule delay at p99."""
# A process of its own, as Prometheus is; it says how many scrapes had metrics when its stdin ends.
_SCRAPER = """
import select, sys, urllib.request as u
url, every_s, scrapes = sys.argv[1], float(sys.argv[2]), 0
accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
while not select.select([sys.stdin], [], [], every_s)[0]:
    try:
        with u.urlopen(u.Request(url, headers={"Accept": accept}), timeout=5) as answer:
            scrapes += b"servemark_request_latency" in answer.read()
    except OSError:
        pass  # before the run, and after it
print(scrapes)
"""


def watched(server: Endpoints, load: Load, seconds: float) -> Figures:
    """One run with its metrics on, and scraped."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", _SCRAPER, f"http://127.0.0.1:{port}/metrics", f"{SCRAPE_S:g}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as scraper:
        figures = locust_load.measure(server, load, seconds, more=["--metrics-port", str(port)])
        scrapes = int(scraper.communicate("")[0])
    if scrapes < seconds / SCRAPE_S / 2:
        raise SystemExit(f"only {scrapes} scrapes in {seconds:g} s: the metrics were not watched")
    return figures


def measured(server: Endpoints, load: Load, seconds: float, pairs: int) -> list[tuple[Figures, Figures]]:
    """Pairs of runs with and without metrics; each run has a schedule of its own."""
    seeds, found = itertools.count(), []
    loads = (Load(load.model, rate=load.rate, concurrency=load.concurrency, seed=seed) for seed in seeds)
    for on, off in alternate(
        lambda: watched(server, next(loads), seconds), lambda: locust_load.measure(server, next(loads), seconds), pairs
    ):
        found.append((on, off))
        shown = " against ".join(f"{e.requests_per_s:.0f}/s, delay p99 {e.delay_p99_ms or 0:.3f} ms" for e in (on, off))
        print(f"pair {len(found)}/{pairs}: {shown}", flush=True)
    return found


def page(
    rate: float, seconds: float, closed: Sequence[tuple[Figures, Figures]], opened: Sequence[tuple[Figures, Figures]]
) -> str:
    """The figures as a Markdown page."""
    machine = collect()
    throughput, most = (
        ratio_of_pairs([(on.requests_per_s, off.requests_per_s) for on, off in runs]) for runs in (opened, closed)
    )
    delays = [((on.delay_p99_ms or 0.0), (off.delay_p99_ms or 0.0)) for on, off in opened]
    differences = [on - off for on, off in delays]
    mean_ms, interval = sum(differences) / len(differences), mean_interval(differences)
    between = f" ({interval[0]:+.3f} to {interval[1]:+.3f})" if interval else ""
    cpu = ratio_of_pairs([(on.cpu_us, off.cpu_us) for on, off in opened])
    lines = [
        "# Cost of watching a run",
        "",
        f"`python -m benchmarks.system.telemetry --rate {rate:g} --rounds {len(closed)} --seconds {seconds:g}`: with "
        f"`--metrics-port`, scraped every {SCRAPE_S:g} s, against without, in turns.",
        "The server answers at once.",
        "",
        f"Machine: {machine['cpu']}, {machine['cores']} cores. Load average at the end: {machine['load_average']}.",
        "",
        "| figure | on against off | aim |",
        "|---|---|---|",
        f"| throughput at {rate:g} requests/s | ratio {throughput} | {THROUGHPUT.verdict(throughput.value)} |",
        f"| schedule delay p99 at {rate:g} requests/s | {mean_ms:+.3f} ms{between} | {DELAY_MS.verdict(mean_ms)} |",
        f"| CPU of the generator and its metrics for each request | ratio {cpu} | |",
        f"| throughput of a closed loop of 32, all cores in use | ratio {most} | |",
        "",
        "| pair | closed loop: requests/s, on | off | delay p99 (ms), on | off |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {number} | {on.requests_per_s:.0f} | {off.requests_per_s:.0f} | {delay_on:.3f} | {delay_off:.3f} |"
        for number, ((on, off), (delay_on, delay_off)) in enumerate(zip(closed, delays, strict=True), 1)
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=5000.0)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--out", type=Path, default=None, help="also write the page to this file")
    options = parser.parse_args()
    with NullServer() as server:
        closed = measured(server.endpoints, Load(), options.seconds, options.rounds)
        opened = measured(server.endpoints, Load(rate=options.rate), options.seconds, options.rounds)
    text = page(options.rate, options.seconds, closed, opened)
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
