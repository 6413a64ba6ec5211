"""The configuration in a result: what is kept, its digest, and what counts as the same."""

from typing import Any

import pytest

from servemark.results.served_config import MAX_KIB, flat, meaning, recorded
from servemark.stats.unknown import unknown

PLAIN: dict[str, Any] = {"backend": "onnxruntime", "max_batch_size": 8, "instance_group": [{"count": 1}]}


@pytest.mark.parametrize(
    "same",
    [
        PLAIN | {"platform": "", "parameters": {}, "model_warmup": []},
        PLAIN | {"instance_group": [{"count": 1, "gpus": [], "passive": False}]},
        dict(reversed(PLAIN.items())),
    ],
)
def test_what_is_zero_may_be_said_or_not(same: dict[str, Any]) -> None:
    assert meaning(same) == meaning(PLAIN)
    assert recorded(same, "") == (same, recorded(PLAIN, "")[1])


@pytest.mark.parametrize(
    "other",
    [
        PLAIN | {"max_batch_size": 4},
        PLAIN | {"instance_group": [{"count": 1}, {"count": 1}]},
        PLAIN | {"dynamic_batching": {"max_queue_delay_microseconds": 0}},
        PLAIN | {"version_policy": {"all": {}}},
    ],
)
def test_what_is_another_has_another_digest(other: dict[str, Any]) -> None:
    assert recorded(other, "")[1] != recorded(PLAIN, "")[1]


def test_a_large_one_leaves_its_digest_and_the_reason() -> None:
    large = PLAIN | {"parameters": {"template": {"string_value": "x" * MAX_KIB * 1024}}}
    found, digest = recorded(large, "")
    assert found == unknown(f"it has {MAX_KIB} KiB, and a result keeps {MAX_KIB} at most")
    assert len(str(digest)) == 64


def test_what_cannot_be_known_has_a_reason() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert recorded(deep, "") == (unknown("it is nested too deep to be read"),) * 2
    assert recorded(None, "silent") == (unknown("silent"),) * 2


def test_a_tree_has_dotted_keys() -> None:
    tree = {"a": {"b": 0, "c": [1]}, "d": [{"e": None}], "f": {}}
    assert flat(tree) == {"a.b": 0, "a.c": [1], "d.0.e": None}
    assert meaning(tree, "x.") == {"x.a": {}, "x.a.c": [1], "x.d": {}, "x.d.0": {}}
