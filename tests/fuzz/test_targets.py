"""Inputs that broke a target once, and new hostile inputs: some minutes of them with `make fuzz`."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzz.__main__ import TARGETS
from tests.fuzz.target import CORPUS

ALL_CHECKS = list(HealthCheck)


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*/*")), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_what_broke_once_is_read_or_refused_within_bounds(file: Path) -> None:
    TARGETS[file.parent.name].attempt(file.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_inputs_are_read_or_refused_within_bounds(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=target.examples, suppress_health_check=ALL_CHECKS)
    @given(target.inputs)
    def attempt(data: bytes) -> None:
        target.attempt(data)

    attempt()


def test_each_folder_of_the_corpus_belongs_to_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= set(TARGETS)
