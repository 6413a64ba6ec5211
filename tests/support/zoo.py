"""The tiny variants, as the tests over the registry take them: a workload may have none."""

import pytest

from servemark.workload import Workload, workloads

NONE = "{} declares no tiny variant"


def tiny_of(name: str) -> Workload:
    """The tiny variant of a workload; the test is skipped where it has none."""
    tiny = workloads()[name].tiny
    if tiny is None:
        pytest.skip(NONE.format(name))
    return tiny


def tiny_names() -> list[str]:
    """The names of the tiny variants that there are."""
    return [workload.tiny.name for workload in workloads().values() if workload.tiny is not None]


def no_tiny(name: str) -> list[pytest.MarkDecorator]:
    """The mark of a test that needs the tiny variant of a workload."""
    return [] if workloads()[name].tiny else [pytest.mark.skip(reason=NONE.format(name))]
