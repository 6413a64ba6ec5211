"""Before a comparison: export, configure, tune and load its contenders, and open the server that they share."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from loadgen.load.load_config import LoadConfig
from loadgen.transport.server_url import DEFAULT_URLS
from servemark.compare.interleaved.contenders import (
    ENGINES,
    SERVERS,
    Contender,
    Contestants,
    configuration,
    lay_out,
    parse_contenders,
)
from servemark.compare.interleaved.hosting import (
    Hosted,
    Participant,
    ProductServers,
    ServerFactory,
    fit_together,
    running_servers,
    triton,
)
from servemark.compare.interleaved.timetable import SEARCH_RUNS, SERVER_TURN_S, EngineWarmUp, answer, rate_rounds
from servemark.documents.commands.compare import Compare
from servemark.documents.load import ConstantRate
from servemark.documents.request import DEFAULT_ENGINE
from servemark.errors import NoResultError, OptionError, ServemarkError, ServerError
from servemark.machine.scratch import scratch_folder
from servemark.output import note
from servemark.paths import shown
from servemark.quantities import duration_text
from servemark.repository.entry import digest
from servemark.results import directory as results
from servemark.results.schema.comparison import TunedFirst
from servemark.results.schema.search import TuningDocument
from servemark.runs.server import export_first, needs_export
from servemark.search.max_rate import RUN_OVERHEAD_S
from servemark.search.refinement import ROUND_RUNS
from servemark.search.tuning import tune_entry, write_tuning
from servers.products import TRITON


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


@dataclass(frozen=True)
class Request:
    """Request for a comparison: what the command asks for, and the run that each contender makes in every round."""

    options: Compare
    config: LoadConfig
    search: ConstantRate
    """A run of what searches for highest rates, but for its rate: `max_rate`, and tuning."""
    urls: Mapping[str, str] = field(default_factory=dict)
    """Servers that run already, by their labels: of one engine, or of one of `engines` each."""
    choose_length: bool = False
    """True if the rounds last as long as the slowest engine needs."""

    @property
    def server_runs(self) -> bool:
        """Tell whether the configuration's server, or each of `urls`, runs already."""
        return bool(self.config.server.url or self.urls)

    def contenders(self) -> list[Contender]:
        """The engines as contenders. Raises OptionError, also where a server that runs cannot be given what is set."""
        options, device = self.options, self.config.server.device
        flag, named = (SERVERS, options.servers) if options.servers else (ENGINES, options.engines or DEFAULT_ENGINE)
        found = parse_contenders(named, self.config.precision, options.sweep, flag=flag)
        if self.urls:
            if len(found) not in {1, len(self.urls)}:
                raise OptionError(
                    f"{len(found)} engines with {len(self.urls)} --urls",
                    fix="one engine for all, or one for each",
                )
            each = found if len(found) > 1 else found * len(self.urls)
            found = [replace(contender, label=label) for contender, label in zip(each, self.urls, strict=True)]
        elif len(found) < 2:
            raise OptionError(f"{flag} {named!r} names one {flag[2:-1]}, a comparison needs two", fix=f"{flag} A,B")
        changes = device or options.server_per_turn or options.tuned or any(c.configured for c in found)
        if self.server_runs and changes:
            raise OptionError(
                "a server that runs already cannot be given --device, --server-per-turn, --tuned "
                "or an engine's options",
                fix="leave them out, or leave out --url",
            )
        if options.fail_on and len(found) != 2:
            raise OptionError(
                f"--fail-on with {len(found)} {found[0].kind}s", fix="name two, the first is the baseline"
            )
        return found

    def plan(self, contenders: Sequence[Contender], exports: Sequence[str]) -> str:
        """Describe the comparison before its exports: about how long it takes, and what is exported first.

        Chosen rounds last longer where a contender is slow, which only its warm-up shows.
        """
        kind, config, options = contenders[0].kind, self.config, self.options
        runs = options.rounds + (SEARCH_RUNS + rate_rounds(options.rounds) * ROUND_RUNS if options.max_rate else 0.0)
        start_s = SERVER_TURN_S if kind == "server" else 0.0
        tuning_s = options.tune_budget_s if options.tuned else 0.0
        each_s = tuning_s + runs * (config.duration_s + config.warmup_s + RUN_OVERHEAD_S + start_s)
        parts = {"tuning": options.tuned, f"{options.rounds} rounds": True, "highest rates": options.max_rate}
        asked = ", ".join(part for part, wanted in parts.items() if wanted)
        more = ", or more where one is slow" if self.choose_length else ""
        first = f"; before that exports, seconds to minutes each: {', '.join(exports)}" if exports else ""
        of = f"{len(contenders)} {'server' if self.urls else kind}s"
        return f"{asked} of {of}: about {duration_text(len(contenders) * each_s)}{more}{first}"

    def participant(self, contender: Contender, model: str | None = None) -> Participant:
        """A contender with its runs, against a model of this name."""
        # The objective is that of the searches, where there are some: the rounds are too short to judge it.
        slo = "" if self.options.max_rate or self.options.tuned else self.config.request.objectives.slo
        # A model that only its server knows is called by its own name there.
        config = self.config.changed(
            model_name=model or self.config.server.model_name,
            slo=slo,
            engine=contender.engine,
            precision=contender.precision,
            **({} if contender.batch_size is None else {"batch_size": contender.batch_size}),
        )
        url = self.urls.get(contender.label)
        return Participant(contender, config.at(url) if url else config)


class Preparation:
    """Participants and servers of a comparison; the servers end with the context.

    Entering it raises ServemarkError for the first contender that cannot take part, unless it may be left out.
    """

    participants: list[Participant]
    server: ServerFactory
    server_each_turn = False
    hosts: ProductServers | None = None
    """The servers, where products are compared."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.tunings: Mapping[str, Tuned] = {}
        self.configurations: dict[str, str] = {}
        """The config.pbtxt of each label, where the server is our own."""
        self.artifacts: dict[str, str] = {}
        """The digest of the model of each label, where the server is our own."""
        self._entrants = Contestants(request.contenders(), may_leave_out=request.options.skip_unavailable)
        self.left_out: Mapping[str, str] = self._entrants.left_out
        """The label of each contender that cannot take part, and why."""
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            if self.request.server_runs:
                note(self.request.plan(self._entrants.contenders, []))
                self.participants = [self.request.participant(c) for c in self._entrants.contenders]
                self.server = running_servers(self.participants)
            else:
                self._serve(*self._configure())
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def _configure(self) -> tuple[Path, dict[str, str]]:
        """Export and configure the contenders, and lay them out; the repository, and each label's model in it."""
        from exporters import require_exporter

        request, config = self.request, self.request.config
        # Known before the minutes that the others' exports may take.
        self._entrants.require(lambda c: require_exporter(c.engine, c.precision))
        asked = dict.fromkeys(c.entry(config.workload, config.model_repository) for c in self._entrants.contenders)
        exports = [entry.model for entry in asked if needs_export(entry)]
        note(request.plan(self._entrants.contenders, exports))
        self._entrants.require(
            lambda c: export_first(config.workload.name, c.engine, c.precision, config.model_repository, c.label)
        )
        contenders = self._entrants.contenders
        entries = {c.label: c.entry(config.workload, config.model_repository) for c in contenders}
        self.artifacts = {label: digest(entry.version) for label, entry in entries.items()}
        of_triton = {c.label: entries[c.label] for c in contenders if c.server in {"", TRITON}}
        self.configurations = {c.label: configuration(c, entries[c.label], config.server.device) for c in contenders}
        if request.options.tuned:
            load, budget_s = config.changed(load=request.search), request.options.tune_budget_s
            self.tunings = tune_contenders(contenders, load, self.configurations, budget_s=budget_s)
        self.configurations |= {label: tuned.config for label, tuned in self.tunings.items()}
        scratch = self._stack.enter_context(scratch_folder("models"))
        return lay_out(of_triton, self.configurations, config.model_repository, scratch)

    def _serve(self, repository: Path, models: Mapping[str, str]) -> None:
        """Open a server for all, or one for each turn where they do not fit together, and of products."""
        if self.request.options.servers:
            self._host_products(repository, models)
            return
        per_turn = self.request.options.server_per_turn
        if per_turn or not fit_together([repository / model for model in models.values()]):
            if not per_turn:
                note("the models do not fit into this machine's free memory together: a server for each turn")
            self._require_loadable(repository, models)
            self.server_each_turn = True
            protocol = self.request.config.protocol
            self.server = lambda participant: triton(repository, [participant.config.model], protocol)
        else:
            try:
                self._share(repository, models)
            except ServemarkError:
                # Tried one by one, the one that cannot be loaded has a name.
                self._require_loadable(repository, models)
                self._share(repository, models)
        self.participants = [self.request.participant(c, models[c.label]) for c in self._entrants.contenders]

    def _host_products(self, repository: Path, models: Mapping[str, str]) -> None:
        self.hosts = hosts = ProductServers(repository, self.request.config.protocol)
        self._entrants.require(lambda contender: hosts.require(contender, self.request.config))
        self.server_each_turn, self.server = True, hosts
        self.participants = [
            hosts.participant(self.request.participant(c, models.get(c.label)), self.configurations[c.label])
            for c in self._entrants.contenders
        ]

    def warm_up(self) -> dict[str, EngineWarmUp]:
        """Warm each participant; return the figures by label. One that cannot answer takes no part, where it may."""
        by_label = {participant.label: participant for participant in self.participants}
        warmed: dict[str, EngineWarmUp] = {}

        def warm(contender: Contender) -> None:
            participant, begun_s = by_label[contender.label], time.monotonic()
            try:
                with self.server(participant) as hosted:
                    found = answer(participant, hosted)
            except NoResultError as error:
                raise ServerError(str(error)) from error
            server_s = time.monotonic() - begun_s if self.server_each_turn else 0.0
            warmed[contender.label] = replace(found, server_s=server_s)

        self._entrants.require(warm)
        self.participants = [by_label[contender.label] for contender in self._entrants.contenders]
        return warmed

    def _share(self, repository: Path, models: Mapping[str, str]) -> None:
        names = [models[contender.label] for contender in self._entrants.contenders]
        shared = self._stack.enter_context(triton(repository, names, self.request.config.protocol))
        self.server = lambda _: contextlib.nullcontext(Hosted(shared.address))

    def _require_loadable(self, repository: Path, models: Mapping[str, str]) -> None:
        """Keep those that a server of their own can load."""

        def load(contender: Contender) -> None:
            with triton(repository, [models[contender.label]], self.request.config.protocol):
                pass

        self._entrants.require(load)
