"""A document's sums: operators to the inference, categories and phases to the operators, shares to the ceilings."""

from dataclasses import replace
from pathlib import Path

import pytest

from servemark.profiling.document import engine_profile
from servemark.profiling.measure import Order
from servemark.profiling.operators import CATEGORIES
from servemark.profiling.timeline import Event, Inference
from servemark.results.kinds import conformed
from servemark.results.schema.header import reason_of
from servemark.results.schema.profile import Profile
from tests.support.profiled import measured, profile_of
from tests.support.saved_documents import ceiling


def test_it_is_of_its_type() -> None:
    document = profile_of(Order("ranking", "onnxruntime", Path()))
    conformed(document, Profile)
    assert document["engines"][1]["latency_ms_reason"] == "it is not there"


def test_operators_and_what_is_between_add_up_to_the_inference() -> None:
    found = engine_profile("onnxruntime", measured(), None)
    told = sum(each["ms"] for each in found["operators"])
    assert told == pytest.approx(0.89)
    assert found["told_share"] == pytest.approx(0.89)
    assert told + (found["between_ms"] or 0) == pytest.approx(1.0)
    for group in (found["layers"], found["categories"], found["phases"]):
        assert sum(each["ms"] for each in group) == pytest.approx(told)


def test_each_category_has_a_row_and_the_unknown_operator_a_name() -> None:
    found = engine_profile("onnxruntime", measured(), None)
    assert [each["name"] for each in found["categories"]] == list(CATEGORIES)
    assert found["unknown_operators"] == ["Frobnicate<b>"]
    assert {each["name"]: each["ms"] for each in found["categories"]}["other"] == pytest.approx(0.1 + 0.1)


def test_calls_of_a_layer_in_a_loop_are_one_row_and_its_rounds_are_phases() -> None:
    found = engine_profile("onnxruntime", measured(), None)
    [layer] = [each for each in found["layers"] if each["name"] == "step_product"]
    assert (layer["calls"], layer["looped"], layer["flops"]) == (2, True, 2000)
    assert {"step 1", "step 2", "before the steps: layer1"} <= {each["name"] for each in found["phases"]}


def test_shares_of_the_ceilings() -> None:
    """0.1 TFLOP/s: 80 MFLOP take 0.8 ms at the least, and took 0.4 ms here."""
    found = engine_profile("onnxruntime", measured(), ceiling())  # type: ignore[arg-type]  # made up
    conv = next(each for each in found["operators"] if each["operator"] == "Conv")
    assert conv["compute_share"] == pytest.approx(2.0)
    assert (conv["intensity"], conv["bound"]) == (200.0, "compute")
    relu = next(each for each in found["operators"] if each["operator"] == "Relu")
    assert relu["bandwidth_share"] == pytest.approx(200_000 / 101e9 / 90e-6)
    assert relu["bound"] == "cache"


def test_what_is_not_told_has_its_reason() -> None:
    found = engine_profile("onnxruntime", measured(), ceiling())  # type: ignore[arg-type]  # made up
    odd = next(each for each in found["operators"] if each["operator"].startswith("Frob"))
    assert odd["flops"] is odd["compute_share"] is found["flops"] is None
    assert "shapes" in str(reason_of(odd, "flops"))


def test_an_operator_that_takes_no_time_has_no_share_of_a_ceiling() -> None:
    """A change of shape launches nothing on a GPU."""
    view = Event("view", "Reshape", 0.0, 0.0, flops=0, bytes=0)
    one = replace(measured(), inference=Inference(1e-3, [view], placed=False))
    [found] = engine_profile("pytorch", one, ceiling())["operators"]  # type: ignore[arg-type]  # made up
    assert (found["ms"], found["bandwidth_share"]) == (0.0, None)
    assert reason_of(found, "bound") == reason_of(found, "compute_share") == "it takes no time"
