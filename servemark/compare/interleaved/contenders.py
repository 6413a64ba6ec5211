"""Participants of a comparison: engines, or servers, as the command line names them, exported and configured."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from servemark.documents.commands.prepare import Serving
from servemark.documents.request import DEFAULT_ENGINE, PRECISIONS
from servemark.errors import OptionError, ServemarkError
from servemark.output import note
from servemark.quantities import one_of, whole
from servemark.repository.entry import Entry
from servemark.repository.model_config import Settings, named
from servemark.workload import Workload

PRECISION, INSTANCES, BATCH, BATCHING = "precision", "instances", "batch", "batching"
_SWITCH = {"on": True, "off": False}
ENGINES, SERVERS = "--engines", "--servers"
SWEEP_EXAMPLE = '--sweep "precision=fp32,int8 instances=1,2 batch=1,8"'
_SYNTAX = re.compile(r"(?P<name>[a-z0-9_]+)(?:@(?P<precision>[a-z0-9]+))?(?P<options>(?::[a-z0-9_]+=[^:,]+)*)")


@dataclass(frozen=True)
class Contender:
    """One engine at one precision with options of its own; `label` names it in tables and is unique.

    Where servers are compared, the engine is ONNX Runtime behind the `server`, a product of `servers.products`.
    """

    engine: str
    precision: str
    label: str
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the engine."""
    instances: int | None = None
    """Instances of the model; None: as config.pbtxt has it."""
    batching: bool | None = None
    """True if the server joins requests; None: as config.pbtxt has it."""
    batch_size: int | None = None
    """Samples in a request; None: as the runs have it."""
    server: str = ""

    @property
    def kind(self) -> str:
        """Kind of thing that is compared: "engine" or "server"."""
        return "server" if self.server else "engine"

    @property
    def configured(self) -> bool:
        """Tell whether the server has to be given something for it."""
        return bool(self.options) or self.instances is not None or self.batching is not None

    def entry(self, workload: Workload, repository: Path) -> Entry:
        """Its entry in the model repository."""
        return Entry(repository, workload.name, self.engine, self.precision)

    @property
    def slug(self) -> str:
        """The label as part of a file name."""
        return re.sub(r"[^a-z0-9_.@]+", "-", self.label)


def parse_contenders(text: str, precision: str, sweep: str = "", *, flag: str = ENGINES) -> list[Contender]:
    """Read `--engines A,B@int8,C:key=value`; `precision` is that of engines without one. Raises OptionError.

    The keys `instances`, `batching` and `batch` are servemark's own; the engine gets the others. An engine that is
    named twice takes part twice: what differs then is chance. A `sweep` like "precision=fp32,int8 instances=1,2" makes
    a contender of each engine and each combination of values. `--servers` is written alike.
    """
    parts = [part.strip() for part in text.split(",")]
    combinations = list(itertools.product(*_sweep(sweep)))
    found = [_contender(_with(part, chosen), precision, flag) for part in parts for chosen in combinations]
    seen: Counter[str] = Counter()
    unique = []
    for contender in found:
        seen[contender.label] += 1
        number = seen[contender.label]
        unique.append(contender if number == 1 else replace(contender, label=f"{contender.label}#{number}"))
    return unique


def parse_urls(text: str) -> dict[str, str]:
    """Read `--urls URL,URL` or `NAME=URL,...`: servers by name, without one by HOST:PORT. Raises OptionError."""
    found = {}
    for part in text.split(","):
        name, equals, url = part.strip().rpartition("=")
        try:
            label = name if equals else urlsplit(url if "//" in url else f"//{url}").netloc
        except ValueError:
            label = ""
        if not label or not url or label in found:
            raise OptionError(
                f"--urls {text!r} has no two names", fix="--urls main=http://HOST:PORT,pr=http://HOST:PORT"
            )
        found[label] = url
    if len(found) < 2:
        raise OptionError(f"--urls {text!r} names one server, a comparison needs two", fix="--urls A,B")
    return found


def _contender(text: str, precision: str, flag: str) -> Contender:
    from servers.engines import engine_names
    from servers.products import PRODUCTS

    match = _SYNTAX.fullmatch(text)
    of_servers = flag == SERVERS
    what, example = ("SERVER", "triton:batching=off") if of_servers else ("ENGINE", "onnxruntime@int8")
    if match is None:
        raise OptionError(f"{flag}: {text!r} is not {what}[@PRECISION][:KEY=VALUE]", fix=f"write it like {example}")
    name, own = match["name"], match["precision"] or precision
    one_of(what.lower(), name, PRODUCTS if of_servers else engine_names())
    one_of("precision", own, PRECISIONS)
    options = dict(option.partition("=")[::2] for option in match["options"].split(":")[1:])
    instances, batch_size = (
        whole(f"{flag}: {key}", options.pop(key), least=1) if key in options else None for key in (INSTANCES, BATCH)
    )
    batching = options.pop(BATCHING, None)
    if batching is not None:
        one_of(BATCHING, batching, list(_SWITCH))
    if of_servers and options:
        raise OptionError(
            f"--servers: {next(iter(options))} is not an option of a server",
            fix=f"use {INSTANCES}=N, {BATCHING}=on|off, {BATCH}=N",
        )
    return Contender(
        DEFAULT_ENGINE if of_servers else name,
        own,
        text,
        options,
        instances,
        None if batching is None else _SWITCH[batching],
        batch_size,
        server=name if of_servers else "",
    )


def _sweep(text: str) -> list[list[tuple[str, str]]]:
    """Read the values of each key of a sweep. Raises OptionError."""
    found: dict[str, list[tuple[str, str]]] = {}
    for part in text.split():
        key, equals, values = part.partition("=")
        if not equals or not all(values.split(",")) or key in found:
            raise OptionError(f"--sweep: {part!r} is not KEY=VALUE,VALUE, each key once", fix=SWEEP_EXAMPLE)
        found[key] = [(key, value) for value in values.split(",")]
    return list(found.values())


def _with(engine: str, chosen: Sequence[tuple[str, str]]) -> str:
    """Write an engine with values of a sweep, as --engines takes it. Raises OptionError where it has one already."""
    name, *options = engine.split(":")
    for key, value in chosen:
        if (key == PRECISION and "@" in name) or any(option.startswith(f"{key}=") for option in options):
            raise OptionError(f"--sweep {key}=... with {engine}, which has one of its own", fix="leave out one of both")
        if key == PRECISION:
            name = f"{name}@{value}"
        else:
            options.append(f"{key}={value}")
    return ":".join([name, *options])


class Contestants:
    """The contenders that can take part; those that cannot are left out with the reason, where they may be.

    Raises ServemarkError with the label of one that may not be left out, OptionError where fewer than two remain.
    """

    def __init__(self, contenders: Sequence[Contender], *, may_leave_out: bool) -> None:
        self.contenders = list(contenders)
        self.left_out: dict[str, str] = {}
        self._may_leave_out = may_leave_out

    def require(self, step: Callable[[Contender], object]) -> None:
        """Keep those for which a step does not fail."""
        count, usable, fixes = len(self.contenders), [], dict[str, None]()
        for contender in self.contenders:
            try:
                step(contender)
            except ServemarkError as error:
                if not self._may_leave_out:
                    leave_out = "leave it out with --skip-unavailable"
                    fix = f"{error.fix}; or {leave_out}" if error.fix else leave_out
                    raise type(error)(f"{contender.label} cannot be compared here: {error.what}", fix=fix) from error
                self.left_out[contender.label] = error.what
                fixes |= {error.fix: None} if error.fix else {}
                note(f"{contender.label} is left out: {error.what}")
            else:
                usable.append(contender)
        if len(usable) < 2:
            reasons = "; ".join(f"{label}: {why}" for label, why in self.left_out.items())
            raise OptionError(
                f"{len(usable)} of {count} {self.contenders[0].kind}s can be used here, because of {reasons}",
                fix="; ".join([*fixes, "or name others"]),
            )
        self.contenders = usable


def configuration(contender: Contender, entry: Entry, device: str) -> str:
    """The config.pbtxt of an entry, as it was exported or edited since, with the contender's own settings."""
    text = entry.read_config()
    options = tuple(f"{key}={value}" for key, value in contender.options.items())
    asked = Settings.of(Serving(device=device, engine_options=options, instances=contender.instances))
    settings = replace(asked, batching=contender.batching)
    return settings.apply(text) if settings else text


def lay_out(
    entries: Mapping[str, Entry], configurations: Mapping[str, str], repository: Path, scratch: Path
) -> tuple[Path, dict[str, str]]:
    """The repository to serve the entries of labels from, and the model's name of each label in it.

    That is the model repository itself, unless `configurations` has another config.pbtxt for a label: then `scratch`,
    where each entry is linked beside its own. Contenders that are alike share a model.
    """
    if all(entry.read_config() == configurations[label] for label, entry in entries.items()):
        return repository, {label: entry.model for label, entry in entries.items()}
    names: dict[tuple[str, str], str] = {}
    models = {}
    for label, entry in entries.items():
        key = (entry.model, configurations[label])
        if key not in names:
            number = sum(model == entry.model for model, _ in names) + 1
            names[key] = entry.model if number == 1 else f"{entry.model}_{number}"
            entry.link(scratch / names[key], named(configurations[label], names[key]))
        models[label] = names[key]
    return scratch, models
