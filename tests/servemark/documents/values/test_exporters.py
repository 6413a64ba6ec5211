"""`--scrape NAME=URL#PREFIX,...`: what it means, and what is refused."""

import pytest

from servemark.documents.values.exporters import Exporter, parse_all
from servemark.errors import OptionError


def test_a_name_a_url_and_prefixes() -> None:
    node, dcgm = parse_all(("node=http://h:9100/metrics#node_load, node_mem", "dcgm=http://h:9400/metrics"))
    assert node == Exporter("node", "http://h:9100/metrics", ("node_load", "node_mem"))
    assert dcgm.prefixes == ("",)


@pytest.mark.parametrize(
    "texts",
    [
        ("http://h:9100/metrics",),
        ("node=https://h:9100/metrics",),
        ("node=http:///metrics",),
        ("triton=http://h:8002/metrics",),
        ("node=http://user:secret@h:9100/metrics",),
        ("node=http://h:1/metrics", "node=http://h:2/metrics"),
    ],
)
def test_what_is_not_such_an_exporter_is_refused(texts: tuple[str, ...]) -> None:
    with pytest.raises(OptionError, match="--scrape"):
        parse_all(texts)
