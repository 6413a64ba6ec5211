"""Who takes part in a comparison: engines as the command line names them, exported and placed on a server."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from servemark.errors import OptionError, ServemarkError
from servemark.output import note
from servemark.quantities import one_of
from servemark.repository.entry import Entry
from servemark.repository.model_config import Settings, parse
from servemark.workload import Workload
from servemark.workload.agreement import PRECISIONS

_SYNTAX = re.compile(r"(?P<engine>[a-z0-9_]+)(?:@(?P<precision>[a-z0-9]+))?(?P<options>(?::[a-z0-9_]+=[^:,]+)*)")


@dataclass(frozen=True)
class Contender:
    """One engine at one precision with options of its own; `label` names it in tables and is unique."""

    engine: str
    precision: str
    label: str
    options: Mapping[str, str] = field(default_factory=dict)

    def entry(self, workload: Workload, repository: Path) -> Entry:
        """Its entry in the model repository."""
        return Entry(repository, workload.name, self.engine, self.precision)

    @property
    def slug(self) -> str:
        """The label as part of a file name."""
        return re.sub(r"[^a-z0-9_.@]+", "-", self.label)


def contenders(text: str, precision: str) -> list[Contender]:
    """Read `--engines A,B@int8,C:key=value`; `precision` is that of engines without one. Raises OptionError.

    An engine that is named twice takes part twice: what differs then is chance.
    """
    found = [_contender(part.strip(), precision) for part in text.split(",")]
    if len(found) < 2:
        raise OptionError(f"--engines {text!r} names one engine, a comparison needs two", fix="--engines A,B")
    seen: Counter[str] = Counter()
    unique = []
    for contender in found:
        seen[contender.label] += 1
        number = seen[contender.label]
        unique.append(contender if number == 1 else replace(contender, label=f"{contender.label}#{number}"))
    return unique


def _contender(text: str, precision: str) -> Contender:
    from servers.engines import engine_names

    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise OptionError(
            f"--engines: {text!r} is not ENGINE[@PRECISION][:KEY=VALUE]", fix="write it like onnxruntime@int8"
        )
    engine, own = match["engine"], match["precision"] or precision
    one_of("engine", engine, engine_names())
    one_of("precision", own, PRECISIONS)
    options = dict(option.partition("=")[::2] for option in match["options"].split(":")[1:])
    return Contender(engine, own, text, options)


def exported(
    chosen: Sequence[Contender], workload: Workload, repository: Path, left_out: dict[str, str], *, skip: bool
) -> list[Contender]:
    """Export what is not exported yet; returns who can take part. Raises as `able` does."""
    from exporters import require
    from exporters.pipeline.isolated import Task, export_isolated

    def export(contender: Contender) -> None:
        task = Task(workload.name, contender.engine, contender.precision, repository, force=False)
        report = export_isolated(task)
        if not report.up_to_date:
            note(f"{contender.label}: exported first, {report.manifest['seconds']:.1f} s")

    # A missing package is found before the minutes that the others' exports may take.
    found = able(chosen, lambda contender: require(contender.engine, contender.precision), left_out, skip=skip)
    return able(found, export, left_out, skip=skip)


def able(
    chosen: Sequence[Contender], step: Callable[[Contender], object], left_out: dict[str, str], *, skip: bool
) -> list[Contender]:
    """Those for which a step does not fail; with `skip` the others go to `left_out` with the reason.

    Raises the step's error, saying whom it concerns, without `skip`; OptionError where fewer than two are left.
    """
    found = []
    for contender in chosen:
        try:
            step(contender)
        except ServemarkError as error:
            if not skip:
                around = "leave it out with --skip-unavailable"
                fix = f"{error.fix}; or {around}" if error.fix else around
                raise type(error)(f"{contender.label} cannot be compared here: {error.what}", fix=fix) from error
            left_out[contender.label] = error.what
            note(f"{contender.label} is left out: {error.what}")
        else:
            found.append(contender)
    if len(found) < 2:
        raise OptionError(f"{len(found)} of {len(chosen)} engines can be used here", fix="servemark doctor says why")
    return found


def configured(able: Sequence[Contender], workload: Workload, repository: Path, device: str) -> dict[str, str]:
    """The config.pbtxt of each label; as it was exported, or edited since, but for the contender's own settings."""
    found = {}
    for contender in able:
        text = contender.entry(workload, repository).config.read_text()
        settings = Settings.from_options(device, [f"{key}={value}" for key, value in contender.options.items()])
        found[contender.label] = settings.apply(text) if settings else text
    return found


def placed(
    able: Sequence[Contender], workload: Workload, repository: Path, configs: Mapping[str, str], scratch: Path
) -> tuple[Path, dict[str, str]]:
    """The repository to serve from, and the model's name of each label in it.

    That is the model repository itself, unless `configs` has another config.pbtxt for a label: then `scratch`, where
    each entry is linked beside its own. Contenders that are alike share a model.
    """
    entries = {contender.label: contender.entry(workload, repository) for contender in able}
    if all(entry.config.read_text() == configs[label] for label, entry in entries.items()):
        return repository, {label: entry.model for label, entry in entries.items()}
    names: dict[tuple[str, str], str] = {}
    models = {}
    for label, entry in entries.items():
        key = (entry.model, configs[label])
        if key not in names:
            number = sum(model == entry.model for model, _ in names) + 1
            names[key] = entry.model if number == 1 else f"{entry.model}_{number}"
            _link(entry, configs[label], scratch / names[key])
        models[label] = names[key]
    return scratch, models


def _link(entry: Entry, text: str, folder: Path) -> None:
    """Make a model directory like an entry's, under another name and with another configuration."""
    from google.protobuf import text_format

    config = parse(text)
    config.name = folder.name
    folder.mkdir(parents=True)
    for item in entry.folder.iterdir():
        if item != entry.config:
            (folder / item.name).symlink_to(item.resolve())
    (folder / entry.config.name).write_text(text_format.MessageToString(config))
