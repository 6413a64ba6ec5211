"""`servemark servers`: what it lists, and what it does not install."""

import json
from pathlib import Path

import pytest

from servers.products import ELSEWHERE, PRODUCTS, version
from tests.support.command_line import BAD_INPUT, Servemark


def test_the_products_are_listed_with_the_command_that_installs_them(
    servemark: Servemark, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    listed = json.loads(servemark("servers", "--json").out)
    assert [row["server"] for row in listed] == [*PRODUCTS, *(each.name for each in ELSEWHERE)]
    assert [row["server"] for row in listed if not row["tried"]] == [each.name for each in ELSEWHERE]
    assert all(row["how_tried"] for row in listed)
    mlserver = next(row for row in listed if row["server"] == "mlserver")
    assert mlserver["version"] == version("mlserver")
    assert not mlserver["installed"]
    assert mlserver["place"].startswith(str(tmp_path))
    shown = servemark("servers").out
    assert "servemark servers install bentoml kserve litserve mlserver mosec ray\n" in shown
    assert "TorchServe was not tried: it is not maintained" in shown


@pytest.mark.parametrize(
    ("name", "words"),
    [("nginx", "server 'nginx' is unknown"), ("triton", "triton comes with servemark")],
)
def test_what_cannot_be_installed_is_refused_before_anything_is(name: str, words: str, servemark: Servemark) -> None:
    code, _, err = servemark("servers", "install", "mosec", name)
    assert code == BAD_INPUT
    assert words in err
