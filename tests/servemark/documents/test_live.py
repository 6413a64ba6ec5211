"""`--scrape NAME=URL#PREFIX,...` and `--at S:COMMAND`: what they mean, and what is refused."""

import pytest

from servemark.documents.live import Exporter, TimedCommand, exporters_of, timed_commands_of
from servemark.errors import OptionError


def test_a_name_a_url_and_prefixes() -> None:
    node, dcgm = exporters_of(("node=http://h:9100/metrics#node_load, node_mem", "dcgm=http://h:9400/metrics"))
    assert node == Exporter("node", "http://h:9100/metrics", ("node_load", "node_mem"))
    assert dcgm.prefixes == ("",)


@pytest.mark.parametrize(
    "texts",
    [
        ("http://h:9100/metrics",),
        ("node=https://h:9100/metrics",),
        ("node=http:///metrics",),
        ("node=http://[::1/metrics",),
        ("triton=http://h:8002/metrics",),
        ("node=http://user:secret@h:9100/metrics",),
        ("node=http://h:1/metrics", "node=http://h:2/metrics"),
    ],
)
def test_what_is_not_such_an_exporter_is_refused(texts: tuple[str, ...]) -> None:
    with pytest.raises(OptionError, match="--scrape"):
        exporters_of(texts)


def test_commands_come_in_the_order_of_their_times() -> None:
    found = timed_commands_of(("20s:sh -c 'a; b'", "1.5: true"))
    assert found == [TimedCommand(1.5, "true"), TimedCommand(20.0, "sh -c 'a; b'")]


@pytest.mark.parametrize("text", ["true", "5:", "5", "-1:true", "soon:true", "5:sh -c 'a"])
def test_what_is_not_such_a_command_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="--at"):
        timed_commands_of((text,))
