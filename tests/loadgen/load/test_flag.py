"""A flag says what its value names: a program, a path, a host or nothing."""

import argparse
import re

import pytest

from loadgen.load.flag import Flag, Joined, Names
from loadgen.load.flags import FLAGS

KINDS = {
    "FILE": {Names.PATH},
    "DIR": {Names.PATH},
    "URL": {Names.HOST},
    "HOST": {Names.HOST},
    "PORT": {Names.HOST},
    "CMD": {Names.PROGRAM},
    "JSON": {Names.PROGRAM},
}
"""The metavar that a flag shows -> the kinds of things that it can name."""


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_a_flag_names_what_its_metavar_shows(flag: Flag) -> None:
    if flag.metavar in KINDS:
        assert flag.names in KINDS[flag.metavar]
    elif flag.name == "input_data":
        assert flag.names is Names.PATH
        assert not re.fullmatch(flag.plain, "inputs.npz")
        assert re.fullmatch(flag.plain, "zero")
    else:
        assert flag.names is Names.NOTHING
        assert not flag.plain


def test_values_that_come_again_are_joined() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slo", action=Joined, default="")
    assert parser.parse_args(["--slo", "p50:5", "--slo", "p99:20"]).slo == "p50:5,p99:20"
