"""The flags of a load, on every command that drives one."""

import functools
import inspect
import re
from argparse import Namespace
from collections.abc import Callable, Collection
from typing import Annotated, Any

from loadgen.inputs.labels import scorable
from loadgen.load.flag import Flag
from loadgen.load.flags import AUTO, BY_NAME, FLAGS, names_of
from loadgen.load.load_config import LoadConfig
from loadgen.load.scenario import SAME_WARMUP_S, ConstantRate, Gaps
from loadgen.targets.any_model import workload_of
from servemark.cli._options import option
from servemark.errors import OptionError
from servemark.quantities import SECONDS, above, at_least

Command = Callable[..., None]

OWN = ("engine", "precision")
"""Every command has these among its own parameters, in front."""


def takes_load(*, without: Collection[str] = (), **defaults: str) -> Callable[[Command], Command]:
    """Give a command the flags in the place of its parameter `load: Namespace`, which has them as a parser would.

    It does not take those that `without` names; `defaults` are this command's.
    """
    if unknown := {*without, *defaults} - {*BY_NAME}:
        raise TypeError(f"no flags of a load: {', '.join(sorted(unknown))}")
    flags = [flag for flag in FLAGS if not flag.of_locustfiles and flag.name not in {*OWN, *without}]
    usual = {flag.dest: defaults.get(flag.name, flag.value) for flag in FLAGS}
    parameters = [
        inspect.Parameter(
            flag.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if flag.repeatable else usual[flag.dest],
            annotation=Annotated[_type_of(flag), option(flag.name), flag.names, re.compile(flag.plain)],
        )
        for flag in flags
    ]

    def expand(command: Command) -> Command:
        @functools.wraps(command)
        def expanded(**given: Any) -> None:
            taken = {flag.dest: given.pop(flag.name) for flag in flags}
            taken |= {flag.dest: ",".join(taken[flag.dest] or ()) for flag in flags if flag.repeatable}
            command(**given, load=Namespace(**usual | taken))

        signature = inspect.signature(command)
        expanded_parameters: list[inspect.Parameter] = []
        for own in signature.parameters.values():
            if own.name == "load":
                expanded_parameters += parameters
            else:
                expanded_parameters.append(own.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        result: Any = expanded
        result.__signature__ = signature.replace(parameters=expanded_parameters)
        return expanded

    return expand


def _type_of(flag: Flag) -> Any:
    """As typer declares it."""
    if flag.repeatable:
        return list[str] | None
    return bool if flag.switch else str


def resolve(load: Namespace, **more: str) -> LoadConfig:
    """The configuration of a run with these flags and `more`. Raises OptionError, InputDataError, ServerError."""
    config = LoadConfig.from_options(Namespace(**vars(load) | more), workload_of)
    if config.quality:
        scorable(config, 1)
    return config


def concerns_a_server(load: Namespace) -> bool:
    """Whether one of the flags is for a server, given or own."""
    return any(getattr(load, BY_NAME[name].dest) != BY_NAME[name].value for name in names_of("server"))


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
    """A run of a search for the highest rate, but for its rate. Raises OptionError."""
    return ConstantRate(
        request_rate=1.0,
        gaps=Gaps.from_options(load),
        duration_s=above("--duration", load.duration, 0, SECONDS),
        # All runs of a search have the same, or a rate near the limit would warm up for as long as it may.
        warmup_s=SAME_WARMUP_S if load.warmup == AUTO else at_least("--warmup", load.warmup, 0, SECONDS),
    )
