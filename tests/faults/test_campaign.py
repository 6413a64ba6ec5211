"""Each fault in a real run. `python -m tests.faults` runs them side by side and writes the page."""

import pytest

from tests.faults.__main__ import MODULES
from tests.faults.generator import Rig
from tests.faults.registry import FAULTS, Fault

pytestmark = pytest.mark.slow
assert MODULES, "they fill the list of faults"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """One for all, which measures the usual memory once."""
    return Rig(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_run_survives(fault: Fault, rig: Rig) -> None:
    seen = fault.inject(rig)
    assert [*fault.troubles(seen)] == [], seen.output[-3000:]
