"""Comparison of engines: prepare all of them, measure in interleaved rounds, keep the measurements."""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from servemark import campaign
from servemark.campaign import GOES_ON, Campaign, interleaved
from servemark.compare.interleaved.document import decided, document
from servemark.compare.interleaved.hosting import Participant
from servemark.compare.interleaved.preparation import Preparation, Request
from servemark.compare.interleaved.timetable import EngineWarmUp, Timetable, answer, timetable
from servemark.compare.interleaved.turn import COMPARISON_FILE, Made, Turn, exit_code, unmet
from servemark.documents.load import ConstantRate
from servemark.errors import ExitCode, OptionError
from servemark.output import note
from servemark.paths import resumed
from servemark.quantities import figure
from servemark.results import directory
from servemark.results.objectives import written
from servemark.results.schema.comparison import ComparisonDocument, ComparisonHeader, RepeatedRound, SavedComparison
from servemark.results.schema.header import opening
from servemark.results.verdict import About, Kind, about, verdict_words
from servemark.runs.locust_process import drive
from servemark.search.max_rate import RateRuns, find_max_rate, identity, write_max_rate
from servemark.search.refinement import HighestRate
from servemark.search.trial import Candidate

OnEnd = Callable[[Path, ComparisonDocument], None]
"""Called with the folder and the document when the rounds have ended, however they end, and again with a gate."""


def compare_engines(request: Request, on_end: OnEnd = lambda *_: None) -> "Comparison":
    """Prepare, measure, write comparison.json. Raises ServemarkError before anything is measured, KeyboardInterrupt."""
    with Preparation(request) as prepared:
        comparison = Comparison(prepared, on_end)
        comparison.measure()
    return comparison


class Comparison:
    """A comparison and its document, which is written whole after each turn and at an interruption."""

    def __init__(self, prepared: Preparation, on_end: OnEnd) -> None:
        self._prepared, self._request, self._on_end = prepared, prepared.request, on_end
        config, options = self._request.config, self._request.options
        self.turns: list[Turn] = []
        self.repeated: list[RepeatedRound] = []
        self._now = self.turns
        """The list that takes the next turn: that of a round alone while it is made again."""
        self._count = itertools.count(1)
        self._participants: Sequence[Participant] = ()
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
            "rounds_requested": options.rounds,
            "left_out": [],
            "tuned": {label: tuned.to_dict() for label, tuned in prepared.tunings.items()},
            "configurations": {
                label: Candidate.of_config(text).to_dict() for label, text in prepared.configurations.items()
            },
        }
        if options.until_decided:
            self._opened["until_decided"] = {"decided": False, "saved_s": 0.0}
        else:
            self._opened["repeated"] = self.repeated
        folder = resumed(options.resume) or directory.new_directory(config.out, f"compare-{config.workload.name}")
        self.campaign = Campaign(folder, self._asked(), self._write, resume=bool(options.resume))

    @property
    def folder(self) -> Path:
        """The folder of the result."""
        return self.campaign.folder

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
        """Warm up, make the rounds and the searches; the measurements are written however they end.

        Raises ServerError, NoResultError if a run has no result, KeyboardInterrupt.
        """
        request, options, prepared = self._request, self._request.options, self._prepared
        with self.campaign:
            warmed, participants = prepared.warm_up(), prepared.participants
            left_out = prepared.left_out.items()
            self._opened["left_out"] = [{"label": label, "reason": reason} for label, reason in left_out]
            if prepared.hosts:
                self._opened["servers"] = {p.label: prepared.hosts.served_by(p.contender) for p in participants}
            slo = request.config.slo if options.max_rate else ()
            choose = functools.partial(
                timetable, participants, warmed, options.rounds, slo, chosen=request.choose_length
            )
            times = self.campaign.turn("lengths", choose, Timetable)
            times.announce(participants, warmed)
            if request.choose_length:
                participants = [participant.lasting(times.round_s) for participant in participants]
                self._opened["duration_s"] = times.round_s
            self._participants = participants
            self.make_rounds(times, warmed)
            if options.max_rate:
                load = msgspec.structs.replace(request.search, duration_s=times.search_s)
                self.find_rates(load, times.rate_rounds)

    def make_rounds(self, times: Timetable, warmed: Mapping[str, EngineWarmUp]) -> None:
        """Make the rounds, until they are enough or each is made, and those again that have to be."""
        costs = {each.label: times.turn_s(each, warmed[each.label]) for each in self._participants}
        self.campaign.expect([*costs.values()] * times.rounds)
        plan = self._rounds(times.rounds, costs)
        for _, made in self.campaign.turns(plan, Made, lambda _: _words(self._now[-1])):
            self._now.append(Turn.read(made, self.folder))

    def _rounds(self, count: int, costs: Mapping[str, float]) -> Iterator[campaign.Turn[Made]]:
        """Plan the rounds: `count` of them, or until they are enough."""
        for number in range(1, count + 1):
            yield from self._round(number, costs)
            if self._enough():
                return
        if not self._request.options.until_decided:
            yield from self._repeats(costs)

    def _round(self, number: int, costs: Mapping[str, float], again: str = "") -> Iterator[campaign.Turn[Made]]:
        for participant in interleaved(self._participants, number):
            place = f"{next(self._count):02}-{participant.contender.slug}"
            make = functools.partial(self._run, participant, number, place)
            yield campaign.Turn(f"round {number}{again}, {participant.label}", make, costs[participant.label])

    def _repeats(self, costs: Mapping[str, float]) -> Iterator[campaign.Turn[Made]]:
        """Plan rounds again, once each, in which a run is INVALID because it drifted or the load generator was late.

        All engines run again, and the former runs of such a round do not count, whatever they found. Where half of the
        rounds or more are such, the machine is to blame, and none is repeated.
        """
        spoilt = {turn.round: turn for turn in self.turns if _spoilt(turn)}
        if 2 * len(spoilt) >= len({turn.round for turn in self.turns}):
            return
        for number, turn in spoilt.items():
            failed = unmet(turn.result)
            note(f"round {number} again, because {turn.label} was INVALID ({', '.join(failed)})")
            self._now = []
            yield from self._round(number, costs, " again")
            others = [each for each in self.turns if each.round != number]
            self.turns[:] = sorted([*others, *self._now], key=lambda each: each.round)
            self._now = self.turns
            self.repeated.append({"round": number, "label": turn.label, "failed": failed})

    def _run(self, participant: Participant, number: int, place: str) -> Made:
        """Make one run, with the round's seed, at the engine's server."""
        with self._prepared.server(participant) as hosted:
            if self._prepared.server_each_turn:
                answer(participant, hosted)
            config = hosted.asked(participant.config).changed(seed=participant.config.seed + number - 1)
            folder = self.campaign.below(place)
            made = Made(number, participant.label, place)
            try:
                drive(replace(config, result_dir=folder))
            except BaseException:
                # An interrupted run is listed too, but takes no part in the figures.
                if (folder / directory.HISTOGRAM_FILE).exists():
                    self._now.append(Turn.read(made, self.folder))
                raise
            return replace(made, footprint=hosted.footprint())

    def find_rates(self, load: ConstantRate, count: int) -> None:
        """Search each engine's highest rate, then find all of them again in `count` rounds.

        An engine whose rate is no longer met, or is limited by the generator, leaves the rounds. They end if the first
        engine leaves or only one remains, because there is no comparison left.
        """
        participants = self._participants
        runs = {each.label: self._search(each, load) for each in participants}
        for number in range(1, count + 1):
            sound = [each for each in participants if self.rates[each.label].reason is None]
            if len(sound) < 2 or sound[0] is not participants[0]:
                break
            for participant in interleaved(sound, number):
                rate, own = self.rates[participant.label], runs[participant.label]
                with self._prepared.server(participant) as hosted:
                    if self._prepared.server_each_turn:
                        answer(participant, hosted)
                    own.config = hosted.asked(own.config)
                    rate.repeat(own.measure, number)
                found = rate.reason or f"{rate.rounds[-1]:,.4g} requests/s"
                note(f"rate round {number}/{count}  {participant.label}: {found}")
            self._write(GOES_ON)

    def _search(self, participant: Participant, load: ConstantRate) -> RateRuns:
        """Search one engine's highest rate; where there is none, the reason stands for it."""
        note(f"highest rate of {participant.label}")
        # Its number, because two labels may be alike as part of a file name.
        place = f"max-rate-{self._participants.index(participant) + 1}-{participant.contender.slug}"
        with self._prepared.server(participant) as hosted:
            config = hosted.asked(participant.config).changed(slo=written(self._request.config.slo))
            runs = RateRuns(config, load, self.campaign, drive, despite_busy=True, place=f"{place}/")
            try:
                found = find_max_rate(runs)
            except OptionError as error:
                self.rates[participant.label] = HighestRate(None, f"{error.what}; {error.fix}", place)
                note(f"{participant.label}: {error.what}; {error.fix}")
                return runs
        write_max_rate(runs, found)
        self.rates[participant.label] = HighestRate.of(found, place)
        self._write(GOES_ON)
        return runs

    def _enough(self) -> bool:
        """Tell whether the rounds may end, because each engine is told apart from the first or equal to it."""
        if not self._request.options.until_decided:
            return False
        found = self._document(GOES_ON)
        done, most = found["rounds_done"], self._request.options.rounds
        if not decided(found) or done == most:
            return False
        self._opened["until_decided"] = {"decided": True, "saved_s": (most - done) * self.campaign.spent_s / done}
        note(f"decided after {done} of {most} rounds")
        return True

    def _asked(self) -> dict[str, object]:
        """Return the identity of the comparison, as its journal holds it."""
        request, options = self._request, self._request.options
        return identity(
            request.config,
            kind="comparison",
            engines=[contender.label for contender in request.contenders()],
            configurations=self._opened["configurations"],
            rounds=options.rounds,
            until_decided=options.until_decided,
            max_rate=options.max_rate,
            search=msgspec.to_builtins(request.search),
            server_per_turn=options.server_per_turn,
            **{f"the model of {label}": found for label, found in self._prepared.artifacts.items()},
        )

    def _document(self, partial: str | None) -> ComparisonDocument:
        labels = [participant.label for participant in self._participants]
        return document(self._opened, self.turns, labels, self.rates, partial)

    def _write(self, partial: str | None) -> None:
        if not self.turns:
            return
        self.document = self._document(partial)
        self.campaign.mark(self.document, partial)
        directory.write_atomically(self.folder / COMPARISON_FILE, directory.to_json(self.document))
        if partial != GOES_ON and self.document["rows"]:
            self._on_end(self.folder, self.document)


def _spoilt(turn: Turn) -> bool:
    """Tell whether a run is INVALID for no other reason than that it drifted or the load generator was late."""
    failed = unmet(turn.result)
    return bool(failed) and not set(failed) - {Kind.STEADY_STATE, *about(failed, About.GENERATOR)}


def _words(turn: Turn) -> str:
    found = turn.to_dict()
    p50 = "-" if found["p50_ms"] is None else f"{figure(found['p50_ms'])} ms"
    verdict = verdict_words(found["failed"], found["objective"])
    if found["unsteady"]:
        verdict += ", scattered"
    if found["disturbed"]:
        verdict += ", beside other work"
    return f"p50 {p50}, {figure(found['inferences_per_s'])} inferences/s, {verdict}"
