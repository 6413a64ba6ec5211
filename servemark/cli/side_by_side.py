"""Engines side by side: prepare all of them, measure in rounds, keep what was measured, report."""

import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadgen.options import LoadConfig
from servemark import results
from servemark.cli.contenders import Contender, configured, contenders, exported, placed
from servemark.cli.drive import check, take_sigterm
from servemark.cli.max_rate import find, write
from servemark.cli.rounds import Host, Place, Rounds, alone, fit_together, given, loaded, together
from servemark.cli.tuned import Tuned, tuned_settings
from servemark.compare import COMPARISON_FILE, Turn, document
from servemark.environment import collect
from servemark.errors import ExitCode, OptionError, ServemarkError
from servemark.output import note, stdout
from servemark.report.comparison import markdown, render_comparison
from servemark.report.comparison_plot import page

_SEVERITY = (ExitCode.VALID, ExitCode.SLO_MISSED, ExitCode.INVALID)


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
    take_sigterm()
    left_out: dict[str, str] = {}
    tunings: dict[str, Tuned] = {}
    with contextlib.ExitStack() as stack:
        places, host, warm_each_turn = _open(request, chosen, config, left_out, tunings, stack)
        kept = _Kept(config, request, [place.contender.label for place in places], left_out, tunings)
        _measure(request, places, host, kept, warm_each_turn=warm_each_turn)
    if json:
        print(results.to_json(kept.document), end="")  # noqa: T201
    else:
        render_comparison(kept.document, stdout())
    note(f"result: {os.path.relpath(kept.folder)}")
    return int(max((ExitCode(turn.result["verdict"]["exit_code"]) for turn in kept.turns), key=_SEVERITY.index))


def _open(
    request: Request,
    chosen: list[Contender],
    config: LoadConfig,
    left_out: dict[str, str],
    tunings: dict[str, Tuned],
    stack: contextlib.ExitStack,
) -> tuple[list[Place], Host, bool]:
    """Have every contender served, or left out with its reason; the last value says if each turn has a new server.

    Raises ServemarkError for the first that cannot take part, unless it may be left out.
    """
    if request.url:
        places = [_place(request, contender, "") for contender in chosen]
        return places, given(places), False
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
    return [_place(request, contender, models[contender.label]) for contender in able], host, not shared


class _Kept:
    """What has been measured so far, on disk: written whole after each round, also when it is cut short."""

    def __init__(
        self,
        config: LoadConfig,
        request: Request,
        labels: Sequence[str],
        left_out: Mapping[str, str],
        tunings: Mapping[str, Tuned],
    ) -> None:
        self.folder = results.new_directory(config.out, f"compare-{config.workload.name}")
        self.labels = labels
        self.turns: Sequence[Turn] = []
        self.max_rates: dict[str, Any] = {}
        self.document: dict[str, Any] = {}
        self._opened = {
            "schema_version": results.SCHEMA_VERSION,
            "kind": "comparison",
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": ["servemark", *sys.argv[1:]],
            "workload": config.workload.name,
            "seed": request.seed,
            "batch_size": config.batch_size,
            "duration_s": config.duration_s,
            "pairs": request.pairs,
            "left_out": [{"label": label, "reason": reason} for label, reason in left_out.items()],
            "tuned": {label: tuned.to_dict() for label, tuned in tunings.items()},
            "environment": collect(),
        }

    def write(self, turns: Sequence[Turn], partial: str | None, *, going_on: bool = False) -> None:
        """Write the document, and its pages unless the rounds go on."""
        self.turns = turns
        self.document = document(self._opened, turns, self.labels, self.max_rates, partial)
        results.write_atomically(self.folder / COMPARISON_FILE, results.to_json(self.document))
        if self.document["rows"] and not going_on:
            results.write_atomically(self.folder / "comparison.md", markdown(self.document))
            if importlib.util.find_spec("plotly") is None:
                note("no comparison.html without plotly: pip install 'servemark[plots]'")
            else:
                results.write_atomically(self.folder / "comparison.html", page(self.document))


def _measure(request: Request, places: Sequence[Place], host: Host, kept: _Kept, *, warm_each_turn: bool) -> None:
    def keep(turns: Sequence[Turn]) -> None:
        kept.write(turns, "the rounds go on", going_on=True)

    rounds = Rounds(places, request.seed, kept.folder, host, keep, warm_each_turn)
    reason: str | None = "it ended with an error"
    try:
        rounds.run(request.pairs)
        if request.max_rate:
            for place in places:
                kept.max_rates[place.contender.label] = _highest_rate(request, place, host, kept.folder)
                keep(rounds.turns)
        reason = None
    except KeyboardInterrupt:
        reason = "interrupted"
        raise
    finally:
        if rounds.turns:
            kept.write(rounds.turns, reason)
            if reason:
                note(f"partial result: {os.path.relpath(kept.folder)}")
        else:
            with contextlib.suppress(OSError):
                kept.folder.rmdir()


def _highest_rate(request: Request, place: Place, host: Host, folder: Path) -> dict[str, Any]:
    """Search one engine's highest rate; where there is none, the reason stands for it."""
    note(f"highest rate of {place.contender.label}")
    directory = folder / f"max-rate-{place.contender.slug}"
    directory.mkdir()
    without_load = {name: value for name, value in place.flags.items() if name not in request.load}
    flags = {**without_load, "slo": request.flags["slo"]}
    with host(place.model) as address:
        try:
            found = find(
                check(flags, request.seed, address),
                {**flags, "host": address},
                seed=request.seed,
                folder=directory,
                output=subprocess.DEVNULL,
            )
        except OptionError as error:
            return {"rate": None, "reason": error.what}
    write(directory, found)
    return {**found.to_dict(), "directory": directory.name}


def _place(request: Request, contender: Contender, model: str) -> Place:
    """A contender with its resolved load. Raises OptionError."""
    flags = {**request.flags, "engine": contender.engine, "precision": contender.precision, "model_name": model}
    if request.max_rate or request.tune_budget_s is not None:
        flags["slo"] = ""  # the objective of the search; the rounds are too short to judge it
    loaded_flags = flags | dict(request.load)
    return Place(contender, model, check(loaded_flags, request.seed, request.url), loaded_flags)
