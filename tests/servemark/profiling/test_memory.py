"""The parts of the growth of a process add up to it, whatever an engine holds when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servemark.profiling.memory import parts

mib = st.floats(-20, 500)


@given(mib, mib, mib, st.floats(0, 600))
def test_parts_add_up(imports: float, loading: float, answering: float, artifact: float) -> None:
    found = parts(50.0, 50 + imports, 50 + imports + loading, 50 + imports + loading + answering, artifact)
    assert sum(each["mib"] for each in found) == pytest.approx(imports + loading + answering, abs=1e-6)


def test_weights_that_are_mapped_are_no_activations() -> None:
    named = {each["part"]: each["mib"] for each in parts(50.0, 80.0, 90.0, 200.0, 100.0)}
    assert named == {
        "engine's libraries": 30.0,
        "weights": 100.0,
        "loading beyond the weights": 0.0,
        "activations and workspace": 20.0,
    }
