"""Comparison of engines: prepare all of them, measure in rounds, keep the measurements."""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from servemark.compare.interleaved.document import COMPARISON_FILE, Turn, document
from servemark.compare.interleaved.preparation import Preparation, Request
from servemark.compare.interleaved.rate_rounds import RateTurns
from servemark.compare.interleaved.rounds import LoadTurns, Rounds
from servemark.compare.interleaved.timetable import timetable
from servemark.compare.interleaved.validity import decided, exit_code
from servemark.errors import ExitCode
from servemark.output import note
from servemark.paths import shown
from servemark.results import directory
from servemark.results.objectives import written
from servemark.results.schema.comparison import ComparisonDocument, ComparisonHeader, SavedComparison
from servemark.results.schema.header import opening
from servemark.search.max_rate.refinement import HighestRate
from servemark.search.tuning import Candidate

OnEnd = Callable[[Path, ComparisonDocument], None]
"""Called with the folder and the document when the rounds have ended, however they end, and again with a gate."""


def compare_engines(request: Request, on_end: OnEnd = lambda *_: None) -> "Comparison":
    """Prepare, measure, write comparison.json. Raises ServemarkError before anything is measured, KeyboardInterrupt."""
    with Preparation(request) as prepared:
        comparison = Comparison(prepared, on_end)
        comparison.measure()
    return comparison


class Comparison:
    """A comparison and its document, which is written whole after each round and at an interruption."""

    def __init__(self, prepared: Preparation, on_end: OnEnd) -> None:
        self._prepared, self._request, self._on_end = prepared, prepared.request, on_end
        config = prepared.request.config
        self.folder = directory.new_directory(config.out, f"compare-{config.workload.name}")
        self.turns: list[Turn] = []
        self.rates: dict[str, HighestRate] = {}
        self.document: ComparisonDocument
        """The document in the form of comparison.json."""
        begun = opening()
        self._opened: ComparisonHeader = {
            "schema_version": begun["schema_version"],
            "created": begun["created"],
            "command": begun["command"],
            "environment": begun["environment"],
            "kind": "comparison",
            "workload": config.workload.name,
            "seed": config.seed,
            "batch_size": config.batch_size,
            "duration_s": config.duration_s,
            "slo": written(config.slo) or None,
            "rounds_requested": self._request.rounds,
            "left_out": [],
            "tuned": {label: tuned.to_dict() for label, tuned in prepared.tunings.items()},
            "configurations": {
                label: Candidate.of_config(text).to_dict() for label, text in prepared.configurations.items()
            },
        }

        if self._request.until_decided:
            self._opened["until_decided"] = {"decided": False, "saved_s": 0.0}

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of the worst round or search."""
        codes = [exit_code(turn.result) for turn in self.turns] + [rate.exit_code for rate in self.rates.values()]
        return ExitCode.worst(codes)

    def add_gate(self, found: SavedComparison) -> None:
        """Add a gate's judgement to the document."""
        self.document["gate"] = found
        directory.write_atomically(self.folder / COMPARISON_FILE, directory.to_json(self.document))
        self._on_end(self.folder, self.document)

    def measure(self) -> None:
        """Warm up, make the rounds and the searches; the measurements are written however they end."""
        reason: str | None = "it ended with an error"
        try:
            self._measure()
            reason = None
        except KeyboardInterrupt:
            reason = "interrupted"
            raise
        finally:
            if self.turns:
                self._write(reason)
                if self.document["rows"]:
                    self._on_end(self.folder, self.document)
                if reason:
                    note(f"partial result: {shown(self.folder)}")
            else:
                directory.discard(self.folder)

    def _measure(self) -> None:
        request, prepared = self._request, self._prepared
        warmed, participants = prepared.warm_up(self.folder), prepared.participants
        left_out = prepared.left_out.items()
        self._opened["left_out"] = [{"label": label, "reason": reason} for label, reason in left_out]
        if prepared.hosts:
            self._opened["servers"] = {p.label: prepared.hosts.served_by(p.contender) for p in participants}
        slo = request.config.slo if request.max_rate else ()
        times = timetable(participants, warmed, request.rounds, slo, chosen=request.choose_length)
        times.announce(participants, warmed)
        if request.choose_length:
            participants = [participant.lasting(times.round_s) for participant in participants]
            self._opened["duration_s"] = times.round_s
        rounds = Rounds(self.folder, prepared.server, self._go_on, prepared.server_each_turn)
        begun = time.monotonic()
        turns = LoadTurns(participants, self.folder, self.turns)
        rounds.run(request.rounds, turns, enough=lambda: self._enough(time.monotonic() - begun))
        if not request.until_decided:
            self._opened["repeated"] = turns.repeated
            turns.repeat(rounds)
        if request.max_rate:
            load = msgspec.structs.replace(request.search, duration_s=times.search_s)
            RateTurns(participants, request.config.slo, load, self.rates).run(rounds, times.rate_rounds)

    def _enough(self, spent_s: float) -> bool:
        """Tell whether the rounds may end, because each engine is told apart from the first or equal to it."""
        done, most = self.document["rounds_done"], self._request.rounds
        if not self._request.until_decided or not decided(self.document) or done == most:
            return False
        self._opened["until_decided"] = {"decided": True, "saved_s": (most - done) * spent_s / done}
        note(f"decided after {done} of {most} rounds")
        return True

    def _go_on(self) -> None:
        self._write("the rounds go on")

    def _write(self, partial: str | None) -> None:
        labels = [participant.label for participant in self._prepared.participants]
        self.document = document(self._opened, self.turns, labels, self.rates, partial)
        directory.write_atomically(self.folder / COMPARISON_FILE, directory.to_json(self.document))
