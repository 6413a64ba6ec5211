"""The flags of a request, on every command that drives a load."""

import functools
import inspect
import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

from msgspec import Struct

from loadgen.inputs.labels import scorable
from loadgen.load.load_config import LoadConfig
from loadgen.targets.any_model import workload_of
from servemark.cli._options import Completion, option
from servemark.documents.flags import OPTIONS, Option, Value, made, options_in, request_of
from servemark.documents.load import AUTO, ConstantRate
from servemark.documents.request import RunRequest
from servemark.errors import OptionError

Command = Callable[..., None]


def takes_load(name: str, **defaults: str) -> Callable[[Command], Command]:
    """Give the command of this name its flags in the place of its parameter `load: Namespace`.

    Each field of a request says which commands have its flag; `defaults` are this command's.
    """
    if unknown := {*defaults} - {*OPTIONS}:
        raise TypeError(f"no flags of a load: {', '.join(sorted(unknown))}")
    options = [each for each in OPTIONS.values() if name in each.flag.commands]
    usual = {each.name: each.value for each in options} | defaults
    return _in_place_of("load", options, usual, lambda taken: Namespace(**usual | taken))


def takes_options(kind: type[Struct], **completions: Completion) -> Callable[[Command], Command]:
    """Give a command the flags of a document's fields in the place of its parameter `options`, which is the document.

    `completions` are what a shell completes the values of flags to.
    """
    options = options_in(kind)
    usual = {each.name: each.value for each in options.values()}
    return _in_place_of("options", [*options.values()], usual, functools.partial(made, kind), completions)


def _in_place_of(
    name: str,
    options: Sequence[Option],
    usual: Mapping[str, Value],
    make: Callable[[dict[str, Any]], Any],
    completions: Mapping[str, Completion] = MappingProxyType({}),
) -> Callable[[Command], Command]:
    """Give a command these flags in the place of one parameter, which gets what is made of their values."""
    parameters = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None
            if each.flag.repeatable
            else inspect.Parameter.empty
            if each.value is None
            else usual[each.name],
            annotation=Annotated[
                _type_of(each), option(each, completions.get(each.name)), each.flag.names, re.compile(each.flag.plain)
            ],
        )
        for each in options
    ]

    def expand(command: Command) -> Command:
        @functools.wraps(command)
        def expanded(**given: Any) -> None:
            taken = {each.name: given.pop(each.name) for each in options}
            command(**given, **{name: make(taken)})

        signature = inspect.signature(command)
        expanded_parameters: list[inspect.Parameter] = []
        for own in signature.parameters.values():
            if own.name == name:
                expanded_parameters += parameters
            else:
                expanded_parameters.append(own.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        result: Any = expanded
        result.__signature__ = signature.replace(parameters=expanded_parameters)
        return expanded

    return expand


def _type_of(option: Option) -> Any:
    """As typer declares it."""
    if option.flag.repeatable:
        return list[str] | None
    return bool if option.flag.switch else str


def resolve(load: Namespace, **more: Any) -> LoadConfig:
    """Resolve the run with these flags and `more`. Raises OptionError, InputDataError, ServerError."""
    return resolved(requested(load, **more))


def requested(load: Namespace, **more: Any) -> RunRequest:
    """Make the request with these flags and `more`. Raises OptionError."""
    return request_of({**vars(load), **more})


def resolved(request: RunRequest, address: str = "") -> LoadConfig:
    """Resolve a request, for a server at another address if given. Raises OptionError, InputDataError, ServerError."""
    config = LoadConfig.of(request, workload_of, address=address)
    if config.quality:
        scorable(config, 1)
    return config


def require_scoring(load: Namespace, flag: str, *, given: bool) -> None:
    """Refuse a language model where the flag that has answers scored is not given. Raises OptionError."""
    if load.language_model and not given:
        raise OptionError("--language-model decodes answers that are scored, and none are", fix=f"add {flag}")


def require_fixed_warmup(load: Namespace) -> None:
    """Refuse a warm-up that each turn of several ends by itself. Raises OptionError."""
    if load.warmup == AUTO:
        raise OptionError(
            "--warmup auto would give each turn another warm-up",
            fix="give seconds, like --warmup 1: what answers first is warmed before its turns besides",
        )


def search_load(load: Namespace) -> ConstantRate:
    """Make the load of a run of a search for the highest rate, but for its rate. Raises OptionError."""
    names = ("request_distribution", "gamma_cv", "duration", "warmup")
    search = request_of({"request_rate": "1", **{name: getattr(load, name) for name in names}}).load
    assert isinstance(search, ConstantRate)
    return search
