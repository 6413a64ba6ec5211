"""The models' table and cards: what is padded, and what the zoo has not."""

import re

import pytest

from servemark.workload import get, names
from tools.model_cards import cards, models


def card(name: str) -> str:
    (found,) = re.findall(rf"^## {name}$(.*?)(?=^## |\Z)", cards(), re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("din", "0.008946 (without padding: 0.0007895)"),
        ("deepspeech", "120.3 (without padding: 91.05; longest request: 429.5)"),
        ("resnet50", "8.178"),
    ],
)
def test_a_card_tells_flops_with_padding_and_without(name: str, figures: str) -> None:
    assert f"| GFLOPs | {figures} |" in card(name)


def test_what_the_zoo_has_not_is_told_with_a_reason_that_names_what_it_has() -> None:
    section = models().partition("\n## Not in the zoo, and why\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?:AI|MLPerf).* \| (.+) \| (.+) \|$", section, re.MULTILINE)
    assert len(rows) == 18
    for what, why in rows:
        assert what not in names()
        for name in re.findall(r"`(\w+)`", why):
            assert get(name).name == name
