"""One tuning with real trials on an own Triton, from its log to its document; also what `compare --tuned` asks for.

Knows no command line.
"""

import contextlib
import functools
import hashlib
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

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
from servemark.results.objectives import latency_objective
from servemark.results.schema.header import opening
from servemark.results.schema.run import Result
from servemark.results.schema.search import NamedCandidate, Screens, TuningDocument
from servemark.results.verdict import Kind, failed_constraints
from servemark.runs.locust_process import drive_into
from servemark.runs.server import address_of
from servemark.search.max_rate import identity
from servemark.search.points import point_of
from servemark.search.stages import tune
from servemark.search.trial import Bench, Candidate, CandidateScore, Objective, Space, Trial, Tuning
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

    def __exit__(self, *error: Any) -> None:
        self._running.__exit__(*error)
        self._repository.close()

    def text(self, candidate: Candidate) -> str:
        """Return the candidate's config.pbtxt; the present configuration keeps its text."""
        settings = candidate.settings(self._space.present)
        return settings.apply(self._text) if settings else self._text

    def trial(self, stage: str, candidate: Candidate, load: float, number: int) -> Trial:
        """Make a trial, and print what it came to."""
        made = self._made(Trial(stage, candidate, load, number, seconds=0.0))
        # The time between two trials counts too.
        before, self._mark_s = self._mark_s, time.monotonic()
        made = replace(made, seconds=self._mark_s - before)
        if stage == "screen" and load != self._in_flight:
            note(f"screening, by closed loops of {SCREEN_S:g} s with {load:g} requests in flight")
            self._in_flight = load
        note(line(made))
        return made

    def _made(self, trial: Trial) -> Trial:
        """Serve the candidate and make one run of it."""
        try:
            address = self._served(trial.candidate)
        except ServerError as error:
            return replace(trial, failure=error.what)
        self._count += 1
        folder = self._folder / f"{self._count:03}-{trial.stage}"
        folder.mkdir()
        seed = self._config.seed + STAGES[trial.stage] + trial.number
        run = replace(self._config.at(address).changed(seed=seed), result_dir=folder)
        if trial.stage == "screen":
            screen = ClosedLoop(concurrency=int(trial.load), duration_s=SCREEN_S, warmup=SCREEN_WARMUP_S)
            run = run.changed(load=screen, slo="")
        else:
            duration_s, warmup_s = self._config.duration_s, self._config.warmup_s
            run = run.changed(load=ConstantRate(rate=trial.load, duration_s=duration_s, warmup=warmup_s))
        # The run's output goes to a file; its own report is in its directory.
        with (folder / "output.txt").open("w+") as errors:
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
            return replace(trial, failure=dead or f"a run ended without a result: {message}")
        return _with_figures(replace(trial, directory=folder.name, failure=dead), result)

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
            server = servers.open_server(
                "auto", self._entry.repository, [self._entry.model], start_timeout_s=LOAD_TIMEOUT_S, reloadable=True
            )
            self._server = self._running.enter_context(server)
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


def _with_figures(trial: Trial, result: Result) -> Trial:
    """Return the trial with its run's figures."""
    if trial.stage != "screen":
        point = point_of(result, str(trial.directory))
        return replace(trial, point=point, generator_limits=point.limit == "generator")
    trial = replace(trial, generator_limits=result["bottleneck"]["by"] == GENERATOR)
    failed, throughput = failed_constraints(result["verdict"]), value_of(result, "throughput.requests")
    if Kind.ERROR_RATE in failed or not throughput:
        messages, errors = result["details"]["errors"]["messages"].values(), count_of(result, "errors.count")
        first = next((texts[0] for texts in messages if texts), "none was answered in time")
        return replace(trial, failure=trial.failure or f"{errors:,} requests failed: {first}")
    if Kind.OUTPUT_AGREEMENT in failed:
        return replace(trial, failure="its outputs do not agree with the golden ones")
    return replace(trial, throughput=throughput)


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
    on_cut: Callable[[TuningDocument], None] = lambda _: None,
) -> TuningDocument:
    """Tune an entry from one of its configurations; return the document, whose `written` is still empty.

    `config` has the objective and the length of a run at a rate; its load is not used. The model repository is only
    read. Without `despite_busy` it ends where other work disturbs the first runs at a rate. Raises OptionError,
    ServerError (see `stages.tune`) and KeyboardInterrupt, after the folder and `on_cut` have what is known.
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
    asked = identity(
        config,
        kind="tuning",
        screens=_screens(),
        space=space.to_dict(),
        config_sha256=hashlib.sha256(config_text.encode()).hexdigest(),
        artifact_sha256=digest(config.entry.version),
    )
    objective = Objective(slo.percentile, slo.limit, config.duration_s)
    campaign = Campaign(folder, asked, resume=resume)
    with campaign, ServedBench(config, config_text, space, folder) as bench:

        def write(tuning: Tuning) -> None:
            if any(standing.candidate == space.present for standing in tuning.standings):
                document = _document(config, tuning, space, bench.text, budget_s, INTERRUPTED)
                on_cut(write_tuning(folder, document, written=None, reason="cut short"))

        trials = in_turns(campaign, bench.trial)
        tuning = tune(trials, space, objective, budget_s, stop_when_busy=not despite_busy, on_cut=write)
    return _document(config, tuning, space, bench.text, budget_s)


def in_turns(campaign: Campaign, bench: Bench) -> Bench:
    """Make a bench's trials turns of a campaign: what the journal has is not made again."""

    def trial(stage: str, candidate: Candidate, load: float, number: int) -> Trial:
        make = functools.partial(bench, stage, candidate, load, number)
        return campaign.turn(f"{stage} {number} of {candidate}, {load!r}", make, Trial)

    return trial


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


def _screens() -> Screens:
    """Return the durations of a loaded model's warm-up and of its screens."""
    return {"warmed_s": WARM_S, "warmup_s": SCREEN_WARMUP_S, "duration_s": SCREEN_S}


@explained
def _document(
    config: LoadConfig,
    tuning: Tuning,
    space: Space,
    text_of: Callable[[Candidate], str],
    budget_s: float,
    partial: str | None = None,
) -> TuningDocument:
    """Make the document of a tuning; `text_of` gives a candidate's config.pbtxt."""
    before, ratio = tuning.standing(space.present), tuning.ratio
    after = tuning.standing(tuning.winner) if tuning.winner else None

    def named(candidate: Candidate) -> NamedCandidate:
        return {"candidate": candidate.to_dict(), "text": str(candidate), "config": text_of(candidate)}

    return {
        **opening(),
        "kind": "tuning",
        "request": config.to_dict(),
        "seed": config.seed,
        "workload": config.workload.name,
        "engine": config.engine,
        "device": _device(text_of(space.present)),
        "precision": config.precision,
        "batch_size": config.batch_size,
        "budget_s": budget_s,
        "spent_s": round(tuning.spent_s, 3),
        "partial": partial is not None,
        "partial_reason": partial,
        "screens": _screens(),
        "space": space.to_dict(),
        "present": named(space.present),
        "winner": named(tuning.winner) if tuning.winner else None,
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
