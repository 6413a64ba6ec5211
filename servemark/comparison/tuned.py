"""`compare --tuned`: each engine gets its best configuration before the rounds, so that its own holds none back."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servemark.comparison.contenders import Contender
from servemark.errors import ServemarkError
from servemark.output import note
from servemark.results import directory as results
from servemark.runs.locust_process import check
from servemark.tuning.session import session

OWN = {"protocol": "", "streaming": False, "request_distribution": "poisson", "gamma_cv": "", "model_name": ""}
"""A tuning drives its own server over HTTP with Poisson arrivals, whatever the rounds do."""


@dataclass(frozen=True)
class Tuned:
    """The configuration that a contender takes part with, and the tuning's document."""

    config: str
    document: Mapping[str, Any]
    directory: str

    @property
    def remedy(self) -> str | None:
        """What would decide an undecided tuning; its contender takes part as configured, so it may be at a loss."""
        if self.document["outcome"] != "undecided":
            return None
        return {
            "time": f"--tune-budget {2 * self.document['budget_s']:g}",
            "generator": "give the generator a core of its own, or fewer and larger requests with --batch-size",
            "server": f"see what failed in {self.directory}; then again, or without --tuned",
        }[self.document["lacked"]]

    def to_dict(self) -> dict[str, Any]:
        """As comparison.json holds it."""
        taken = self.document["winner"] or self.document["present"]
        keys = ("outcome", "reason", "lacked", "ratio")
        found = {key: self.document[key] for key in keys}
        return {**found, "remedy": self.remedy, "taken": taken["text"], "directory": self.directory}


def tuned_settings(
    able: Sequence[Contender], flags: Mapping[str, Any], configs: Mapping[str, str], *, seed: int, budget_s: float
) -> dict[str, Tuned]:
    """Tune each contender for the objective in `flags`, the locustfile's without load; label -> what was found.

    `configs` has the config.pbtxt of each label to begin with. The model repository is only read. Where nothing better
    was found the present configuration is taken. Contenders that are alike are tuned once. Raises ServemarkError with
    the contender's label, KeyboardInterrupt.
    """
    found: dict[str, Tuned] = {}
    known: dict[tuple[str, str, str], Tuned] = {}
    for contender in able:
        key = (contender.engine, contender.precision, configs[contender.label])
        if key not in known:
            note(f"tuning {contender.label}, {budget_s:g} s at most")
            known[key] = _tune(contender, {**flags, **OWN}, configs[contender.label], seed, budget_s)
            note(f"{contender.label}: {known[key].document['outcome']}: {known[key].document['reason']}")
            if remedy := known[key].remedy:
                note(f"{contender.label} takes part as configured, which may not be its best\n  fix: {remedy}")
        found[contender.label] = known[key]
    return found


def _tune(contender: Contender, flags: dict[str, Any], text: str, seed: int, budget_s: float) -> Tuned:
    flags |= {"engine": contender.engine, "precision": contender.precision}
    config = check(flags, seed, "")
    folder: Path = results.new_directory(config.out, f"tune-{config.model}")
    try:
        document = session(config, flags, text, folder=folder, budget_s=budget_s)
    except ServemarkError as error:
        raise type(error)(f"{contender.label} cannot be tuned: {error.what}", fix=error.fix) from error
    document["written_reason"] = "tuned for a comparison"
    results.write_atomically(folder / "tuning.json", results.to_json(document))
    taken = document["winner"] or document["present"]
    return Tuned(taken["config"], document, os.path.relpath(folder))
