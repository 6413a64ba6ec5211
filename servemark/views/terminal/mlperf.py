"""An MLPerf run on the terminal: LoadGen's figures, this side's, the verdict."""

from rich.console import Console
from rich.text import Text

from servemark.results.schema.mlperf import MlperfResult
from servemark.views.quality import score_words

_PERCENTILES = ("50.00", "90.00", "95.00", "99.00", "99.90")


def render_mlperf(result: MlperfResult, console: Console) -> None:
    """Print a result of kind `mlperf`."""
    official, verdict = result["loadgen"], result["verdict"]
    scenario = result["scenario"]
    place = ", ".join(str(result[key]) for key in ("engine", "device", "precision"))
    console.print(Text(f"{result['workload']} on {place}  |  MLPerf {scenario}, LoadGen {official['version']}"))
    plan = result["plan"]
    if plan.get("latency_ms") is not None and scenario == "Server":
        bound = f"p{plan['percentile']:g} within {plan['latency_ms']:g} ms, {plan.get('bound_from')}"
        console.print(Text(f"bound: {bound}; asked {plan['expected_qps']:g}/s"))
    known = {p: official.get(f"{p}_percentile_latency_ns") for p in _PERCENTILES}
    figures = "  ".join(f"p{float(p):g} {ns / 1e6:.4g}" for p, ns in known.items() if ns is not None)
    if figures:  # of an accuracy run it keeps no times
        console.print(Text(f"LoadGen    ms  {figures}"))
    latency = result["metrics"]["latency_ms"]
    ours = "  ".join(
        f"{key.replace('_', '.')} {latency[key]:.4g}" for key in ("p50", "p90", "p95", "p99", "p99_9") if latency[key]
    )
    console.print(Text(f"servemark  ms  {ours}"))
    for key in ("qps_without_loadgen_overhead", "completed_samples_per_sec", "samples_per_second"):
        if key in official:
            console.print(Text(f"{key.replace('_', ' ')}: {official[key]:.5g}"))
    if (scored := result["metrics"]["correctness"].get("quality")) is not None:
        console.print(Text(f"quality: {score_words(scored)}"))
    word, style = ("VALID", "bold green") if verdict["valid"] else ("INVALID", "bold red")
    console.print(Text.assemble("Result is : ", (word, style)))
    for constraint in verdict["constraints"]:
        ok = constraint["ok"]
        console.print(Text.assemble(f"  {constraint['name']:<20} ", ("Yes", "green") if ok else ("No ", "bold red")))
        if not ok:
            console.print(Text(f"  {'':<20} -> {constraint['remedy']}", style="yellow"))
