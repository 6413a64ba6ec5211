"""The first fix, measured against the present in interleaved rounds on one server."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import servers
from loadgen.load.load_config import LoadConfig
from servemark.campaign import interleaved
from servemark.compare.interleaved.contenders import lay_out
from servemark.errors import OptionError
from servemark.figures.registry import value_of
from servemark.machine.scratch import scratch_folder
from servemark.output import note
from servemark.quantities import duration_text, figure
from servemark.repository.model_config import Settings
from servemark.results import directory
from servemark.results.schema.explanation import Tried
from servemark.results.schema.run import Result
from servemark.runs.locust_process import drive
from servemark.runs.server import address_of
from servemark.search.max_rate.runs import RUN_OVERHEAD_S
from servemark.stats.ratios import ratio_of_pairs

NOW, FIXED = "now", "fixed"


def try_fix(config: LoadConfig, folder: Path, result: Result, rounds: int) -> None:
    """Measure the first fix of a result's explanation, and write what was found into the result.

    Does nothing, and says so, where the fix is none of the model's settings. Raises OptionError for a server that is
    not our own, ServerError, NoResultError.
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
    p99_ms = _measured(config, folder, _settings(fix["settings"], config.batch_size), rounds)
    pairs = [*zip(p99_ms[FIXED], p99_ms[NOW], strict=True)]
    explanation["tried"] = tried(pairs, fix["p99_ms"] and fix["p99_ms"] / explanation["p99_ms"])
    directory.write(folder, result)


def tried(pairs: Sequence[tuple[float, float]], predicted: float | None) -> Tried:
    """The ratio of p99 with the fix and now, over rounds (ms)."""
    ratio = ratio_of_pairs(pairs)
    return {
        "rounds": len(pairs),
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


def _measured(config: LoadConfig, folder: Path, settings: Settings, rounds: int) -> dict[str, list[float]]:
    """p99 of each round's runs, as it is now and with the settings (ms)."""
    asked, entry = Settings.of(config.server), config.entry
    present = asked.apply(entry.read_config()) if asked else entry.read_config()
    configurations = {NOW: present, FIXED: settings.apply(present)}
    found: dict[str, list[float]] = {NOW: [], FIXED: []}
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
                    found[label].append(_p99_ms(drive(replace(turn, result_dir=below))))
                    note(f"round {number}/{rounds}  {label}: p99 {figure(found[label][-1])} ms")
    return found


def _p99_ms(result: Result) -> float:
    """p99 of a run, or the highest percentile that its requests support (ms)."""
    known = (value_of(result, f"latency.{key}") for key in ("p99", "p95", "p90", "p50"))
    return next(value for value in known if value is not None)
