"""`compare --tuned`: each engine gets its best configuration before the rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadgen.load.load_config import LoadConfig
from loadgen.transport.server_url import DEFAULT_URLS
from servemark.compare.interleaved.contenders import Contender
from servemark.errors import ServemarkError
from servemark.output import note
from servemark.paths import shown
from servemark.results import directory as results
from servemark.results.schema.comparison import TunedFirst
from servemark.results.schema.tuning import TuningDocument
from servemark.search.tuning.session import tune_entry, write_tuning


@dataclass(frozen=True)
class Tuned:
    """The configuration that a contender takes part with, and the tuning's document."""

    config: str
    document: TuningDocument
    directory: str

    @property
    def remedy(self) -> str | None:
        """Advice that would decide an undecided tuning, whose contender takes part as it is configured now."""
        if self.document["lacked"] is None:
            return None
        return {
            "time": f"--tune-budget {2 * self.document['budget_s']:g}",
            "machine": "stop the other work, then again",
            "generator": "give the generator a core of its own, or fewer and larger requests with --batch-size",
            "server": f"see what failed in {self.directory}; then again, or without --tuned",
        }[self.document["lacked"]]

    def to_dict(self) -> TunedFirst:
        """Convert to the form of comparison.json."""
        return {
            "outcome": self.document["outcome"],
            "reason": self.document["reason"],
            "lacked": self.document["lacked"],
            "ratio": self.document["ratio"],
            "remedy": self.remedy,
            "taken": (self.document["winner"] or self.document["present"])["text"],
            "directory": self.directory,
        }


def tune_contenders(
    contenders: Sequence[Contender], config: LoadConfig, configurations: Mapping[str, str], *, budget_s: float
) -> dict[str, Tuned]:
    """Tune each contender for the configuration's objective; return the tunings by label.

    `configurations` has the config.pbtxt of each label to begin with. The model repository is only read. If no better
    configuration is found, the present one is kept. Equal contenders are tuned once. Raises ServemarkError with the
    contender's label, KeyboardInterrupt.
    """
    found: dict[str, Tuned] = {}
    known: dict[tuple[str, str, str], Tuned] = {}
    # A tuning drives its own server over HTTP with Poisson arrivals, whatever the rounds do.
    config = config.changed(url="", protocol="", streaming=False, model_name="").at(DEFAULT_URLS["http"])
    for contender in contenders:
        text = configurations[contender.label]
        key = (contender.engine, contender.precision, text)
        if key not in known:
            note(f"tuning {contender.label}, {budget_s:g} s at most")
            known[key] = _tune(contender, config, text, budget_s)
            note(f"{contender.label}: {known[key].document['outcome']}: {known[key].document['reason']}")
            if remedy := known[key].remedy:
                note(f"{contender.label} takes part as configured, which may not be its best\n  fix: {remedy}")
        found[contender.label] = known[key]
    return found


def _tune(contender: Contender, config: LoadConfig, text: str, budget_s: float) -> Tuned:
    config = config.changed(engine=contender.engine, precision=contender.precision)
    folder: Path = results.new_directory(config.out, f"tune-{config.model}")
    try:
        document = tune_entry(config, text, folder=folder, budget_s=budget_s)
    except ServemarkError as error:
        raise type(error)(f"{contender.label} cannot be tuned: {error.what}", fix=error.fix) from error
    write_tuning(folder, document, written=None, reason="tuned for a comparison")
    taken = document["winner"] or document["present"]
    return Tuned(taken["config"], document, shown(folder))
