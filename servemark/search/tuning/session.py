"""One tuning with real trials, from its log to its document; also what `compare --tuned` asks for."""

import functools
import hashlib
import statistics
from pathlib import Path

from loadgen.load.load_config import LoadConfig
from servemark.campaign import INTERRUPTED, Campaign
from servemark.errors import ArtifactError, OptionError
from servemark.machine import limits
from servemark.paths import shown
from servemark.repository.entry import digest
from servemark.repository.model_config import parse
from servemark.results import directory
from servemark.results.objectives import latency_objective
from servemark.results.schema.header import opening
from servemark.results.schema.tuning import NamedCandidate, Screens, TuningDocument
from servemark.search.max_rate.runs import identity
from servemark.search.tuning.bench import SCREEN_S, SCREEN_WARMUP_S, WARM_S, ServedBench
from servemark.search.tuning.search import tune
from servemark.search.tuning.space import Candidate, Space
from servemark.search.tuning.trial import Bench, CandidateScore, InterruptedTuning, Objective, Trial, Tuning
from servemark.stats.unknown import explained, or_unknown, unknown

BEFORE = "config.pbtxt.before-tune"


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
