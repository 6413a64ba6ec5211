"""`--at S:COMMAND`: what it means, and what is refused."""

import pytest

from servemark.documents.values.timed_commands import TimedCommand, parse_all
from servemark.errors import OptionError


def test_commands_come_in_the_order_of_their_times() -> None:
    found = parse_all(("20s:sh -c 'a; b'", "1.5: true"))
    assert found == [TimedCommand(1.5, "true"), TimedCommand(20.0, "sh -c 'a; b'")]


@pytest.mark.parametrize("text", ["true", "5:", "5", "-1:true", "soon:true", "5:sh -c 'a"])
def test_what_is_not_such_a_command_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="--at"):
        parse_all((text,))
