"""Suites: tables of sizes. Each module is one or several, and `SUITES` names them; the registry finds the module."""

import functools
from collections.abc import Callable, Sequence

from kernels.measurement.case import Case
from kernels.measurement.kernel import families
from servemark.errors import OptionError
from servemark.plugins import modules_of
from servemark.quantities import one_of

Suite = Callable[[], list[Case]]


@functools.cache
def suites() -> dict[str, Suite]:
    """All suites by name, in order of name."""
    found = [each for module in modules_of(__name__).values() for each in module.SUITES.items()]
    return dict(sorted(found))


def cases_of(suite: str, wanted: Sequence[str] = ()) -> list[Case]:
    """The cases of a suite, or those of some families. Raises OptionError on an unknown suite or family."""
    return chosen(suite, suites()[one_of("suite", suite, suites())](), wanted)


def chosen(name: str, cases: Sequence[Case], wanted: Sequence[str]) -> list[Case]:
    """All cases, or those of some families. Raises OptionError on an unknown family, and where none are left."""
    for family in wanted:
        if family in suites() and family not in families():
            raise OptionError(f"{family!r} is a suite, not a family", fix=f"--suite {family}")
        one_of("family", family, families())
    found = [case for case in cases if not wanted or case.family in wanted]
    if not found:
        has = ", ".join(dict.fromkeys(case.family for case in cases))
        raise OptionError(f"{name} has no {' or '.join(wanted) or 'kernel'}; it has {has}", fix="name one of these")
    return found
