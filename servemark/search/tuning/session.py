"""One tuning with real trials on an own Triton, from its log to its document; also what `compare --tuned` asks for."""

import contextlib
import functools
import hashlib
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import servers
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.probe import probe
from loadgen.sut.channel import Payload
from loadgen.sut.target import Target
from loadgen.targets.open import open_target
from servemark.campaign import INTERRUPTED, Campaign
from servemark.documents.load import ClosedLoop, ConstantRate
from servemark.errors import ArtifactError, NoResultError, OptionError, ServerError
from servemark.figures.registry import count_of, value_of
from servemark.machine import limits
from servemark.machine.scratch import scratch_folder
from servemark.output import note
from servemark.paths import shown
from servemark.quantities import figure
from servemark.repository.entry import digest
from servemark.repository.model_config import parse
from servemark.results import directory
from servemark.results.bottleneck import GENERATOR
from servemark.results.constraint_kinds import Kind
from servemark.results.objectives import latency_objective
from servemark.results.schema.header import opening
from servemark.results.schema.run import Result
from servemark.results.schema.tuning import NamedCandidate, Screens, TuningDocument
from servemark.results.verdict import failed_constraints
from servemark.runs.locust_process import drive_into
from servemark.runs.server import address_of
from servemark.search.max_rate.point import point_of
from servemark.search.max_rate.runs import identity
from servemark.search.tuning.search import tune
from servemark.search.tuning.trial import (
    Bench,
    Candidate,
    CandidateScore,
    InterruptedTuning,
    Objective,
    Space,
    Trial,
    Tuning,
)
from servemark.stats.unknown import explained, or_unknown, unknown
from servers.launch.server import load_model, unload_model

SCREEN_S = 2.5
SCREEN_WARMUP_S = 0.5
WARM_S = 1.0
WARM_CONCURRENCY = 4
"""A loaded candidate is warmed for WARM_S at this concurrency, or at twice its instances if that is more, so that each
instance gets requests. Then the work that an engine does once (allocate, compile) burdens no trial."""
LOAD_TIMEOUT_S = 300.0
"""Limit for loading, and for a request of the warm-up: a model that compiles may take minutes for either."""
TAIL_CHARACTERS = 400
STAGES = {"screen": 0, "search": 1000, "round": 2000}
"""Added to the seed with the trial's number, so that candidates meet the same schedules as far as possible."""
BEFORE = "config.pbtxt.before-tune"


class ServedBench:
    """Measures candidates; `config_text` is the present configuration, `config` a run whose load is replaced."""

    def __init__(self, config: LoadConfig, config_text: str, space: Space, folder: Path) -> None:
        self._config, self._text, self._space, self._folder = config, config_text, space, folder
        self._repository = contextlib.ExitStack()
        self._running = contextlib.ExitStack()
        self._server: servers.Server | None = None
        self._target: Target
        self._requests: Iterator[Payload]
        self._loaded: Candidate | None = None
        self._in_flight = 0.0
        self._mark_s = time.monotonic()
        # Counts on from the directories of a resumed tuning, including an interrupted run's.
        self._count = max((int(item.name.partition("-")[0]) for item in folder.glob("[0-9]*-*")), default=0)

    def __enter__(self) -> Self:
        scratch = self._repository.enter_context(scratch_folder("tuning"))
        self._entry = self._config.entry.overlay(self._text, scratch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.__exit__(kind, error, trace)
        self._repository.close()

    def text(self, candidate: Candidate) -> str:
        """Return the candidate's config.pbtxt; the present configuration keeps its text."""
        settings = candidate.settings(self._space.present)
        return settings.apply(self._text) if settings else self._text

    def trial(self, stage: str, candidate: Candidate, load: float, number: int) -> Trial:
        """Serve the candidate and make one run of it."""
        try:
            address = self._served(candidate)
        except ServerError as error:
            return self._kept(Trial(stage, candidate, load, number, self._seconds(), failure=error.what))
        self._count += 1
        directory = self._folder / f"{self._count:03}-{stage}"
        directory.mkdir()
        seed = self._config.seed + STAGES[stage] + number
        run = replace(self._config.at(address).changed(seed=seed), result_dir=directory)
        if stage == "screen":
            screen = ClosedLoop(concurrency=int(load), duration_s=SCREEN_S, warmup=SCREEN_WARMUP_S)
            run = run.changed(load=screen, slo="")
        else:
            duration_s, warmup_s = self._config.duration_s, self._config.warmup_s
            run = run.changed(load=ConstantRate(rate=load, duration_s=duration_s, warmup=warmup_s))
        # The run's output goes to a file; its own report is in its directory.
        with (directory / "output.txt").open("w+") as errors:
            try:
                result = drive_into(run, errors, errors)
            except NoResultError:
                result = None
            message = Path(errors.name).read_text(errors="replace").strip()[-TAIL_CHARACTERS:] or "it printed nothing"
        dead = self._death()
        if result is None or Kind.SERVER_ALIVE in failed_constraints(result["verdict"]):
            self._end_server()  # Triton neither starts a model's process again nor lets go of a model without one
        elif Kind.ERROR_RATE in failed_constraints(result["verdict"]):
            self._loaded = None  # a candidate that fails requests is loaded anew
        if result is None:
            why = dead or f"a run ended without a result: {message}"
            return self._kept(Trial(stage, candidate, load, number, self._seconds(), failure=why))
        return self._kept(self._read(Trial(stage, candidate, load, number, self._seconds()), result, directory, dead))

    def _read(self, trial: Trial, result: Result, directory: Path, dead: str | None) -> Trial:
        """Return the trial with its run's figures."""
        trial = replace(trial, directory=directory.name, failure=dead)
        if trial.stage != "screen":
            point = point_of(result, directory.name)
            return replace(trial, point=point, generator_limits=point.generator_limits)
        trial = replace(trial, generator_limits=result["bottleneck"]["by"] == GENERATOR)
        failed, throughput = failed_constraints(result["verdict"]), value_of(result, "throughput.requests")
        if Kind.ERROR_RATE in failed or not throughput:
            messages, errors = result["details"]["errors"]["messages"].values(), count_of(result, "errors.count")
            first = next((texts[0] for texts in messages if texts), "none was answered in time")
            return replace(trial, failure=dead or f"{errors:,} requests failed: {first}")
        if Kind.OUTPUT_AGREEMENT in failed:
            return replace(trial, failure="its outputs do not agree with the golden ones")
        return replace(trial, throughput=throughput)

    def _served(self, candidate: Candidate) -> str:
        """Load the candidate; if the server dies of it, try once more on a new server. Raises ServerError."""
        try:
            return self._serve(candidate)
        except ServerError as error:
            if self._server is not None:
                raise
            note(f"{error.what}\ntrying once more on a new server")
            return self._serve(candidate)

    def _serve(self, candidate: Candidate) -> str:
        """Load and warm the candidate, on a new server if there is none. Raises ServerError."""
        if candidate != self._loaded:
            self._loaded = None
            self._entry.config.write_text(self.text(candidate))
            try:
                self._load(candidate)
            except ServerError:
                self._death()
                raise
            self._loaded = candidate
        assert self._server is not None
        return address_of(self._server, "http")

    def _load(self, candidate: Candidate) -> None:
        """Load the candidate and let it answer. Raises ServerError, InputDataError."""
        if self._server is not None:
            try:
                unload_model(self._server, self._entry.model)
            except ServerError:
                self._end_server()
        if self._server is not None:
            load_model(self._server, self._entry.model, LOAD_TIMEOUT_S)
        else:
            opening = servers.open_server(
                "auto",
                self._entry.repository,
                [self._entry.model],
                start_timeout_s=LOAD_TIMEOUT_S,
                reloadable=True,
            )
            self._server = self._running.enter_context(opening)
            self._target = open_target(self._config.at(address_of(self._server, "http")))
            self._requests = self._target.payloads(None)
        concurrency = max(WARM_CONCURRENCY, 2 * candidate.instances)
        probe(self._target, self._requests, concurrency, least_s=WARM_S, timeout_s=LOAD_TIMEOUT_S)

    def _death(self) -> str | None:
        """Return the reason if the server has ended; the next trial gets a new server."""
        if self._server is None:
            return None
        try:
            self._server.check()
        except ServerError as error:
            self._end_server()
            return error.what
        return None

    def _end_server(self) -> None:
        self._running.close()
        self._server = self._loaded = None

    def _seconds(self) -> float:
        """Return the time since the trial before, so that the time between them counts too."""
        before, self._mark_s = self._mark_s, time.monotonic()
        return self._mark_s - before

    def _kept(self, trial: Trial) -> Trial:
        if trial.stage == "screen" and trial.load != self._in_flight:
            note(f"screening, by closed loops of {SCREEN_S:g} s with {trial.load:g} requests in flight")
            self._in_flight = trial.load
        note(line(trial))
        return trial


def line(trial: Trial) -> str:
    """Format one trial for the log on the terminal.

    The better of two candidates is screened again, as is the one to beat on each axis; their lines say so.
    """
    if trial.stage == "screen":
        head = f"screen  {trial.candidate}{', again' if trial.number else ''}"
    else:
        head = f"{trial.stage:<7} {trial.candidate}, {figure(trial.load)}/s"
    if trial.failure:
        return f"{head}: FAILED: {trial.failure}"
    limited = " (the generator was the limit)" if trial.generator_limits else ""
    if trial.point is None:
        return f"{head}: {figure(trial.throughput)} requests/s{limited}"
    latency = "-" if trial.point.latency_ms is None else f"{figure(trial.point.latency_ms)} ms"
    return f"{head}: {latency}, {trial.point.words}{limited}"


def tune_entry(
    config: LoadConfig,
    config_text: str,
    *,
    folder: Path,
    budget_s: float,
    resume: bool = False,
    oversubscribe: bool = False,
    despite_busy: bool = True,
) -> TuningDocument:
    """Tune an entry from one of its configurations; return the document, whose `written` is still empty.

    `config` has the objective and the length of a run at a rate; its load is not used. The model repository is only
    read. Without `despite_busy` it ends where other work disturbs the first runs at a rate. Raises OptionError,
    ServerError (see `tuning.tune`) and KeyboardInterrupt, after which the folder has what is known.
    """
    slo = latency_objective(config.slo)
    if slo is None:
        raise OptionError("tune needs an objective of the latency", fix="give one, like --slo p99:50")
    space = Space.of(
        config_text,
        cores=limits.cores().allowed,
        batch_size=config.batch_size,
        largest=config.workload.max_batch,
        oversubscribe=oversubscribe,
    )
    objective = Objective(slo.percentile, slo.limit, config.duration_s)
    present = _named(space.present, config_text)
    campaign = Campaign(folder, _asked(config, config_text, space), resume=resume)
    with campaign, ServedBench(config, config_text, space, folder) as bench:
        try:
            tuning = tune(Turns(campaign, bench), space, objective, budget_s, stop_when_busy=not despite_busy)
        except InterruptedTuning as cut:
            if any(standing.candidate == space.present for standing in cut.tuning.standings):
                document = _document(config, cut.tuning, space, present, None, budget_s, INTERRUPTED)
                cut.document = write_tuning(folder, document, written=None, reason="cut short")
            raise
        winner = _named(tuning.winner, bench.text(tuning.winner)) if tuning.winner else None
    return _document(config, tuning, space, present, winner, budget_s)


class Turns(Bench):
    """A bench whose trials are the turns of a campaign."""

    def __init__(self, campaign: Campaign, bench: Bench) -> None:
        self._campaign, self._bench = campaign, bench

    def trial(self, stage: str, candidate: Candidate, load: float, number: int) -> Trial:
        """Return the journal's trial, else make it."""
        make = functools.partial(self._bench.trial, stage, candidate, load, number)
        return self._campaign.turn(f"{stage} {number} of {candidate}, {load!r}", make, Trial)


def write_tuning(folder: Path, document: TuningDocument, *, written: str | None, reason: str | None) -> TuningDocument:
    """Write tuning.json with the file that was written, or the reason why none was. Raises ResultError."""
    made: TuningDocument = {**document, "written": or_unknown(written, reason or "nothing was to be written")}
    whole = explained(lambda: made)()
    directory.write_atomically(folder / "tuning.json", directory.to_json(whole))
    return whole


def write_winner(path: Path, present: str, tuned: str) -> str:
    """Replace the present file by the winner, and keep it beside the new one. Raises ArtifactError, ResultError."""
    if path.read_text() != present:
        raise ArtifactError(
            f"{path} was changed while it was tuned; nothing is written", fix="take the winner's text from tuning.json"
        )
    directory.write_atomically(path.with_name(BEFORE), present)
    directory.write_atomically(path, tuned)
    return shown(path)


def _asked(config: LoadConfig, config_text: str, space: Space) -> dict[str, object]:
    """Return the identity of a tuning, as its journal holds it."""
    return identity(
        config,
        kind="tuning",
        screens=_screens(),
        space=space.to_dict(),
        config_sha256=hashlib.sha256(config_text.encode()).hexdigest(),
        artifact_sha256=digest(config.entry.version),
    )


def _screens() -> Screens:
    """Return the durations of a loaded model's warm-up and of its screens."""
    return {"warmed_s": WARM_S, "warmup_s": SCREEN_WARMUP_S, "duration_s": SCREEN_S}


@explained
def _document(
    config: LoadConfig,
    tuning: Tuning,
    space: Space,
    present: NamedCandidate,
    winner: NamedCandidate | None,
    budget_s: float,
    partial: str | None = None,
) -> TuningDocument:
    before, ratio = tuning.standing(space.present), tuning.ratio
    after = tuning.standing(tuning.winner) if tuning.winner else None
    return {
        **opening(),
        "kind": "tuning",
        "request": config.to_dict(),
        "seed": config.seed,
        "workload": config.workload.name,
        "engine": config.engine,
        "device": _device(present["config"]),
        "precision": config.precision,
        "batch_size": config.batch_size,
        "budget_s": budget_s,
        "spent_s": round(tuning.spent_s, 3),
        "partial": partial is not None,
        "partial_reason": partial,
        "screens": _screens(),
        "space": space.to_dict(),
        "present": present,
        "winner": winner,
        "outcome": tuning.outcome,
        "reason": tuning.reason,
        "lacked": tuning.lacked,
        "rates_requests_per_s": {"before": _rate(before), "after": _rate(after) if after else None},
        "rounds": len(before.rounds),
        "ratio": ratio.to_dict() if ratio else unknown("no interleaved rounds were made"),
        "candidates": [standing.to_dict() for standing in tuning.standings],
        "not_tried": list(tuning.not_tried),
        "written": None,
    }


def _named(candidate: Candidate, config: str) -> NamedCandidate:
    return {"candidate": candidate.to_dict(), "text": str(candidate), "config": config}


def _rate(standing: CandidateScore) -> float | None:
    """Return the rounds' mean rate if there were rounds, else the search's."""
    if not standing.rounds:
        return standing.rate
    return statistics.geometric_mean(standing.rounds)


def _device(config_text: str) -> str:
    """Return the device on which the configuration puts its instances."""
    groups = parse(config_text).instance_group
    if not groups or groups[0].kind != groups[0].KIND_GPU:
        return "cpu"
    return ",".join(f"cuda:{number}" for number in groups[0].gpus) or "cuda"
