"""Measurements beside an explanation: the ladder from operators to p99, and the first fix against the present.

Each rung has all that the one below has, and one thing more. So the differences between neighbours add up to p99.
"""

import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import servers
from loadgen.load.load_config import LoadConfig
from servemark.campaign import interleaved
from servemark.compare.interleaved.contenders import lay_out
from servemark.documents.load import ClosedLoop
from servemark.errors import OptionError, ServemarkError
from servemark.figures.registry import value_of
from servemark.machine.own_process import ERRORS, OwnProcess, words
from servemark.machine.scratch import scratch_folder
from servemark.output import note
from servemark.profiling.measure import Measured, Order, measure
from servemark.profiling.run import refusal
from servemark.profiling.timeline import wall_us
from servemark.quantities import duration_text, figure
from servemark.repository.model_config import Settings
from servemark.results import directory
from servemark.results.schema.explanation import Ladder, LadderRung, LeftOut, ServerSteps, Tried
from servemark.results.schema.header import figure_of
from servemark.results.schema.run import Result
from servemark.runs.locust_process import drive
from servemark.runs.server import address_of, server_for
from servemark.stats.ratios import mean_interval, ratio_of_pairs

NOW, FIXED = "now", "fixed"
OPERATORS, ENGINE, SHARED, SERVED, MEDIAN, TAIL = "operators", "engine", "shared_memory", "served", "median", "p99"
RUNGS = {
    OPERATORS: "the engine's operators",
    ENGINE: "the engine, called directly",
    SHARED: "the server with one request in flight, tensors in shared memory",
    SERVED: "the server with one request in flight, tensors in messages",
    MEDIAN: "the load that was asked for: p50",
    TAIL: "the load that was asked for: p99",
}
"""From the lowest to the highest: a name, and what is measured there."""
ENGINE_S, ALONE_S, WARM_UP_S = 2.0, 3.0, 0.5
"""Seconds of a round in which the engine is called, in which one request is in flight, and of the warm-up before."""
ENGINE_TIMEOUT_S = 300.0
_STEPS = {"queue_ms": "server.queue", "input_ms": "server.compute_input"}
_STEPS |= {"infer_ms": "server.compute_infer", "output_ms": "server.compute_output"}
RUN_OVERHEAD_S = 4.0
"""Time of a run besides its load: to start a process and to end it."""
PERCENTILES = ("p99", "p95", "p90", "p50")
"""From the highest: which of them a run has depends on its requests."""
Percentiles = Mapping[str, float]
"""Those that a run has (ms)."""


def try_fix(config: LoadConfig, folder: Path, result: Result, rounds: int) -> None:
    """Measure the first fix of a result's explanation, and write what was found into the result.

    Does nothing, and says so, where the fix is none of the model's settings. Raises OptionError for a server that is
    not our own, ServerError, NoResultError, ServemarkError where a run has too few requests.
    """
    explanation = result.get("explanation")
    if explanation is None:
        return
    fix = next(iter(explanation["fixes"]), None)
    if fix is None or not fix["settings"]:
        note("--try: nothing to try; no setting of the model is named")
        return
    if config.server.url:
        raise OptionError(
            f"--try cannot change the server at {config.url}", fix="leave out --url, and servemark starts one"
        )
    run_s = config.duration_s + config.warmup_s + RUN_OVERHEAD_S
    note(f"--try: {rounds} rounds of 2 runs of {config.duration_s:g} s: about {duration_text(2 * rounds * run_s)}")
    found = _measured(config, folder, _settings(fix["settings"], config.batch_size), rounds)
    percentile = common([*found[NOW], *found[FIXED]])
    pairs = [(fixed[percentile], now[percentile]) for fixed, now in zip(found[FIXED], found[NOW], strict=True)]
    predictions = {"p50": (fix["p50_ms"], explanation["p50_ms"]), "p99": (fix["p99_ms"], explanation["p99_ms"])}
    fixed_ms, now_ms = predictions.get(percentile, (None, 1.0))
    explanation["tried"] = tried(pairs, fixed_ms and fixed_ms / now_ms, percentile)
    directory.write(folder, result)


def common(runs: Sequence[Percentiles]) -> str:
    """Choose the highest percentile that all runs have. Raises ServemarkError where there is none."""
    found = next((each for each in PERCENTILES if all(each in run for run in runs)), None)
    if found is None:
        raise ServemarkError("--try: a run has too few requests for a median", fix="a longer run: --duration")
    return found


def tried(pairs: Sequence[tuple[float, float]], predicted: float | None, percentile: str = PERCENTILES[0]) -> Tried:
    """The ratio of a percentile with the fix and now, over rounds (ms)."""
    ratio = ratio_of_pairs(pairs)
    return {
        "rounds": len(pairs),
        "percentile": percentile,
        "now_p99_ms": [now for _, now in pairs],
        "fixed_p99_ms": [fixed for fixed, _ in pairs],
        "ratio": ratio.value,
        "ratio_ci95": ratio.to_dict()["ci95"],
        "predicted_ratio": predicted,
    }


def _settings(found: dict[str, int], batch_size: int) -> Settings:
    most = found.get("max_requests")
    return Settings(
        instances=found.get("instances"),
        queue_delay_us=found.get("queue_delay_us"),
        max_batch=None if most is None else most * batch_size,
    )


def _measured(config: LoadConfig, folder: Path, settings: Settings, rounds: int) -> dict[str, list[Percentiles]]:
    """Percentiles of each round's runs, now and with the settings. Raises ServemarkError where a run has none."""
    asked, entry = Settings.of(config.server), config.entry
    present = asked.apply(entry.read_config()) if asked else entry.read_config()
    configurations = {NOW: present, FIXED: settings.apply(present)}
    found: dict[str, list[Percentiles]] = {NOW: [], FIXED: []}
    with scratch_folder("repository") as scratch:
        repository, models = lay_out(
            dict.fromkeys(configurations, entry), configurations, config.model_repository, scratch
        )
        with servers.open_server("auto", repository, [*models.values()]) as server:
            plain = config.at(address_of(server, config.protocol)).changed(explain=False)
            for number in range(1, rounds + 1):
                for label in interleaved([NOW, FIXED], number):
                    below = folder / f"try-{number:02}-{label}"
                    below.mkdir()
                    turn = plain.changed(model_name=models[label], seed=config.seed + number)
                    known = percentiles(drive(replace(turn, result_dir=below)))
                    found[label].append(known)
                    highest = common([known])
                    note(f"round {number}/{rounds}  {label}: {highest} {figure(known[highest])} ms")
    return found


def percentiles(result: Result) -> Percentiles:
    """The percentiles that the requests of a run support (ms)."""
    known = {each: value_of(result, f"latency.{each}") for each in PERCENTILES}
    return {each: ms for each, ms in known.items() if ms is not None}


@dataclass(frozen=True)
class Found:
    """Latencies of one measurement by rung (ms), and the server's own steps there."""

    ms: Mapping[str, float]
    server: ServerSteps | None = None


Measurement = Callable[[int], Found]
"""Round, from 1 -> what was found. Raises ServemarkError, or what an engine raises."""


def climb(config: LoadConfig, folder: Path, result: Result, rounds: int) -> None:
    """Measure the ladder of a run, and write it into the explanation of its result.

    Does nothing where there is no explanation. Raises ServemarkError where the load that was asked for has no result.
    """
    explanation = result.get("explanation")
    if explanation is None:
        return
    plain = config.changed(explain=False)
    runs_s = 2 * (ALONE_S + WARM_UP_S) + plain.duration_s + plain.warmup_s + 3 * RUN_OVERHEAD_S + 2 * ENGINE_S
    note(f"the ladder: {rounds} rounds, about {rounds * runs_s / 60:.0f} min")
    with OwnProcess() as process, server_for([plain]) as [served]:
        left_out = _no_engine(plain)
        measurements = _runs(served, folder)
        if left_out is None:
            measurements = {ENGINE: functools.partial(_engine, process, plain), **measurements}
        explanation["ladder"] = measured(measurements, rounds, left_out)
    directory.write(folder, result)


def measured(measurements: Mapping[str, Measurement], rounds: int, no_engine: str | None = None) -> Ladder:
    """Make the rounds; what fails in the first is left out, unless it is the load that was asked for."""
    found: dict[str, list[Found]] = {name: [] for name in measurements}
    left_out: list[LeftOut] = [] if no_engine is None else [{"rung": ENGINE, "reason": no_engine}]
    for number in range(1, rounds + 1):
        for name in interleaved(list(found), number):
            try:
                found[name].append(measurements[name](number))
            except ERRORS as error:
                if number > 1 or name == MEDIAN:
                    raise
                left_out.append({"rung": name, "reason": words(error)})
                note(f"the ladder has no {RUNGS[name]}: {words(error)}")
                del found[name]
                continue
            said = ", ".join(f"{RUNGS[rung]} {figure(ms)} ms" for rung, ms in found[name][-1].ms.items())
            note(f"round {number}/{rounds}  {said}")
    return {"rounds": rounds, "rungs": rungs(list(found.values())), "left_out": left_out}


def rungs(measurements: Sequence[Sequence[Found]]) -> list[LadderRung]:
    """The rungs that each round has, with the difference of each to the one below, over rounds."""
    listed: list[LadderRung] = []
    for name, means in RUNGS.items():
        rounds = next((rounds for rounds in measurements if all(name in each.ms for each in rounds)), [])
        if not rounds:
            continue
        ms = [each.ms[name] for each in rounds]
        below = listed[-1]["ms"] if listed else [0.0] * len(ms)
        steps = [upper - lower for upper, lower in zip(ms, below, strict=True)]
        listed.append(
            {
                "rung": name,
                "words": means,
                "ms": ms,
                "mean_ms": statistics.fmean(ms),
                "step_ms": statistics.fmean(steps),
                "step_ci95_ms": mean_interval(steps),
                "server": _mean_steps([each.server for each in rounds]) if name != TAIL else None,
            }
        )
    return listed


def _no_engine(config: LoadConfig) -> str | None:
    """Say why the engine cannot be called here as the server has it. None: it can."""
    device = config.server.device or "cpu"
    if config.server.url:
        return f"the engine of the server at {config.url} is its own"
    if config.server.engine_options:
        return "--engine-option is for the server"
    error = refusal(config.engine, device)
    return error.what if error else None


def _engine(process: OwnProcess, config: LoadConfig, _: int) -> Found:
    order = Order(
        config.workload.name,
        config.engine,
        config.model_repository,
        config.batch_size,
        config.precision,
        config.server.device or "cpu",
        ENGINE_S,
    )
    return of_engine(process.run(measure, order, timeout_s=ENGINE_TIMEOUT_S), order.device)


def of_engine(measured: Measured, device: str) -> Found:
    """The inference without the profiler; operators have the share of it that they have with it.

    On a GPU they have their time, which the profiler does not lengthen.
    """
    plain_ms, inference = measured.cost["plain_ms"], measured.inference
    told_ms = sum(wall_us(inference)) / 1e3
    slower = inference.seconds * 1e3 / plain_ms if device == "cpu" else 1.0
    return Found({OPERATORS: told_ms / slower, ENGINE: plain_ms})


def _runs(config: LoadConfig, folder: Path) -> dict[str, Measurement]:
    """The measurements at a server, by name."""
    alone = config.changed(load=ClosedLoop(concurrency=1, duration_s=ALONE_S, warmup=WARM_UP_S), slo="")
    configs = {SHARED: alone.changed(shared_memory="system"), SERVED: alone, MEDIAN: config}

    def run(name: str, number: int) -> Found:
        below = folder / f"ladder-{number:02}-{name}"
        below.mkdir()
        each = configs[name].changed(seed=config.seed + number)
        return of_run(name, drive(replace(each, result_dir=below)))

    return {name: functools.partial(run, name) for name in configs}


def of_run(name: str, result: Result) -> Found:
    """The rungs of a run: its median, and under the load that was asked for its p99 if it has one.

    Raises ServemarkError where it has no median.
    """
    median, p99 = value_of(result, "latency.p50"), value_of(result, "latency.p99")
    if median is None:
        raise ServemarkError(f"{RUNGS[name]}: too few requests for a median", fix="a longer run: --duration")
    ms = {name: median}
    if name == MEDIAN and p99 is not None:
        ms[TAIL] = p99
    steps = {key: value_of(result, tag) for key, tag in _STEPS.items()}
    return Found(ms, None if None in steps.values() else cast(ServerSteps, steps))


def _mean_steps(rounds: Sequence[ServerSteps | None]) -> ServerSteps | None:
    known = [steps for steps in rounds if steps is not None]
    if not known or len(known) < len(rounds):
        return None
    means = {key: statistics.fmean(float(figure_of(steps, key) or 0.0) for steps in known) for key in _STEPS}
    return cast(ServerSteps, means)
