"""Engines side by side: prepare all of them, measure in rounds, keep what was measured, report."""

import contextlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadgen.load.load_config import LoadConfig
from servemark.comparison.contenders import Contender, configured, contenders, exported, placed
from servemark.comparison.document import COMPARISON_FILE, Turn, document
from servemark.comparison.hosting import Host, Place, alone, fit_together, given, loaded, together
from servemark.comparison.rate_rounds import RateRounds
from servemark.comparison.rounds import Rounds
from servemark.comparison.timetable import timetable
from servemark.comparison.tuned import Tuned, tuned_settings
from servemark.comparison.validity import exit_code
from servemark.comparison.warm_up import warmed
from servemark.errors import ExitCode, OptionError, ServemarkError
from servemark.machine.environment import collect
from servemark.max_rate.refinement import HighestRate
from servemark.output import note, stdout
from servemark.report.html.comparison import page
from servemark.report.terminal.comparison import markdown, render_comparison
from servemark.results import directory
from servemark.runs.locust_process import check
from servemark.tuning import Candidate
from servemark.workload import Slo


@dataclass(frozen=True)
class Request:
    """What was asked for; `flags` are the locustfile's, `load` those of them that say how much."""

    workload: str
    engines: str
    precision: str
    pairs: int
    url: str
    device: str
    isolate: bool
    skip_unavailable: bool
    flags: Mapping[str, Any]
    load: Mapping[str, Any]
    seed: int
    max_rate: bool
    choose_length: bool = False
    """Whether the rounds last as long as the slowest engine needs."""
    tune_budget_s: float | None = None
    """How long each engine may be tuned for; None: it is compared as configured."""


def compare_engines(request: Request, *, json: bool) -> int:
    """Measure and report; the exit code. Raises ServemarkError before anything is measured, KeyboardInterrupt."""
    chosen = contenders(request.engines, request.precision)
    tuned = request.tune_budget_s is not None
    if request.url and (request.device or request.isolate or tuned or any(c.options for c in chosen)):
        raise OptionError(
            "a server that runs already cannot be given --device, --isolate, --tuned or an engine's options",
            fix="leave them out, or leave out --url",
        )
    # The options are checked before minutes of export.
    config, *_ = [_place(request, contender, "").config for contender in chosen]
    left_out: dict[str, str] = {}
    tunings: dict[str, Tuned] = {}
    with contextlib.ExitStack() as stack:
        places, configs, host, warm_each_turn = _open(request, chosen, config, left_out, tunings, stack)
        kept = _Kept(config, request, [place.label for place in places], left_out, tunings, configs)
        _measure(request, places, host, kept, warm_each_turn=warm_each_turn)
    if json:
        directory.print_json(kept.document)
    else:
        render_comparison(kept.document, stdout())
    note(f"result: {os.path.relpath(kept.folder)}")
    codes = [exit_code(turn.result) for turn in kept.turns] + [rate.exit_code for rate in kept.rates.values()]
    return int(ExitCode.worst(codes))


def _open(
    request: Request,
    chosen: list[Contender],
    config: LoadConfig,
    left_out: dict[str, str],
    tunings: dict[str, Tuned],
    stack: contextlib.ExitStack,
) -> tuple[list[Place], Mapping[str, str], Host, bool]:
    """Have every contender served, or left out with its reason.

    Returns them, the config.pbtxt of each label, the servers, and whether each turn has a new one.
    Raises ServemarkError for the first that cannot take part, unless it may be left out.
    """
    if request.url:
        places = [_place(request, contender, "") for contender in chosen]
        return places, {}, given(places), False
    repository, skip = config.model_repository, request.skip_unavailable
    able = exported(chosen, config.workload, repository, left_out, skip=skip)
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="servemark-models-")))
    configs = configured(able, config.workload, repository, request.device)
    if request.tune_budget_s is not None:
        budget_s = request.tune_budget_s
        tunings |= tuned_settings(able, request.flags, configs, seed=request.seed, budget_s=budget_s)
    configs |= {label: tuned.config for label, tuned in tunings.items()}
    served, models = placed(able, config.workload, repository, configs, scratch)
    shared = not request.isolate and fit_together([served / model for model in models.values()])
    if not shared and not request.isolate:
        note("the models do not fit into this machine's free memory together: a server for each turn")
    apart, host = alone(served, config.protocol), None
    if shared:
        with contextlib.suppress(ServemarkError):  # raised again below, with the name of who cannot be loaded
            host = stack.enter_context(together(served, list(models.values()), config.protocol))
    if host is None:
        able = loaded(able, models, apart, left_out, skip=skip)
        names = [models[contender.label] for contender in able]
        host = stack.enter_context(together(served, names, config.protocol)) if shared else apart
    return [_place(request, contender, models[contender.label]) for contender in able], configs, host, not shared


class _Kept:
    """What has been measured so far, on disk: written whole after each round, also when it is cut short."""

    def __init__(
        self,
        config: LoadConfig,
        request: Request,
        labels: Sequence[str],
        left_out: Mapping[str, str],
        tunings: Mapping[str, Tuned],
        configs: Mapping[str, str],
    ) -> None:
        self.folder = directory.new_directory(config.out, f"compare-{config.workload.name}")
        self.labels = labels
        self.turns: Sequence[Turn] = []
        self.rates: dict[str, HighestRate] = {}
        self.document: dict[str, Any] = {}
        self.opened = {
            "schema_version": directory.SCHEMA_VERSION,
            "kind": "comparison",
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": ["servemark", *sys.argv[1:]],
            "workload": config.workload.name,
            "seed": request.seed,
            "batch_size": config.batch_size,
            "duration_s": config.duration_s,
            "slo": request.flags["slo"] or None,
            "pairs": request.pairs,
            "left_out": [{"label": label, "reason": reason} for label, reason in left_out.items()],
            "tuned": {label: tuned.to_dict() for label, tuned in tunings.items()},
            "configurations": {label: Candidate.of_config(text).to_dict() for label, text in configs.items()},
            "environment": collect(),
        }

    def write(self, turns: Sequence[Turn], partial: str | None, *, going_on: bool = False) -> None:
        """Write the document, and its pages unless the rounds go on."""
        self.turns = turns
        self.document = document(self.opened, turns, self.labels, self.rates, partial)
        directory.write_atomically(self.folder / COMPARISON_FILE, directory.to_json(self.document))
        if self.document["rows"] and not going_on:
            directory.write_atomically(self.folder / "comparison.md", markdown(self.document))
            if importlib.util.find_spec("plotly") is None:
                note("no comparison.html without plotly: pip install 'servemark[plots]'")
            else:
                directory.write_atomically(self.folder / "comparison.html", page(self.document))


def _measure(request: Request, places: Sequence[Place], host: Host, kept: _Kept, *, warm_each_turn: bool) -> None:
    def keep(turns: Sequence[Turn]) -> None:
        kept.write(turns, "the rounds go on", going_on=True)

    turns: list[Turn] = []
    reason: str | None = "it ended with an error"
    try:
        known = {place.label: warmed(place, host, kept.folder, own_server=warm_each_turn) for place in places}
        slo = Slo.parse(request.flags["slo"]) if request.max_rate else None
        times = timetable(places, known, request.pairs, slo, chosen=request.choose_length)
        times.announce(places, known)
        kept.opened |= {"duration_s": times.round_s}
        places = [place.lasting(times.round_s) for place in places] if request.choose_length else places
        rounds = Rounds(places, request.seed, kept.folder, host, keep, warm_each_turn, turns)
        rounds.run(request.pairs)
        if request.max_rate:
            slo_text, again = request.flags["slo"], lambda: keep(turns)
            rates = RateRounds(places, slo_text, times.search_s, kept.folder, host, again, warm_each_turn, kept.rates)
            rates.run(times.rate_rounds)
        reason = None
    except KeyboardInterrupt:
        reason = "interrupted"
        raise
    finally:
        if turns:
            kept.write(turns, reason)
            if reason:
                note(f"partial result: {os.path.relpath(kept.folder)}")
        else:
            with contextlib.suppress(OSError):
                kept.folder.rmdir()


def _place(request: Request, contender: Contender, model: str) -> Place:
    """A contender with its resolved load. Raises OptionError."""
    flags = {**request.flags, "engine": contender.engine, "precision": contender.precision, "model_name": model}
    if request.max_rate or request.tune_budget_s is not None:
        flags["slo"] = ""  # the objective of the search; the rounds are too short to judge it
    loaded_flags = flags | dict(request.load)
    return Place(contender, model, check(loaded_flags, request.seed, request.url), loaded_flags)
