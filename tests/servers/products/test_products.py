"""The server products: pins, applications and commands that fit each other, and the same engine in each."""

import re
from pathlib import Path

import pytest

from loadgen.endpoints.endpoint import built_in
from servemark.errors import OptionError
from servemark.paths import CHECKOUT
from servemark.workload import Tensor
from servers.products import APPS, ELSEWHERE, PRODUCTS, TRITON, Deployment, Place, pins, product, version

OTHERS = [name for name in PRODUCTS if name != TRITON]
ENGINE = re.compile(r"^onnxruntime==(\S+)", re.MULTILINE)


def test_triton_comes_first_and_an_unknown_name_is_refused() -> None:
    assert next(iter(PRODUCTS)) == TRITON
    with pytest.raises(OptionError, match="server 'nope' is unknown"):
        product("nope")


@pytest.mark.parametrize("name", OTHERS)
def test_the_pins_have_the_product_and_our_engine_with_hashes_alone(name: str) -> None:
    text = pins(name).read_text()
    assert version(name)
    assert ENGINE.findall(text) == ENGINE.findall((CHECKOUT / "requirements.lock").read_text())
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==\S+( --hash=sha256:[0-9a-f]{64})+", line) for line in lines)
    assert "://" not in text


@pytest.mark.parametrize("name", OTHERS)
def test_a_product_has_an_application_and_a_command_of_its_environment(name: str, tmp_path: Path) -> None:
    about = PRODUCTS[name]
    assert about.endpoint_type in {"", *built_in()}
    assert not (about.grpc and about.endpoint_type)
    assert (APPS / f"{name}.py").is_file()
    x = Tensor("x", "FP32", (2,))
    place = Place(tmp_path / "bin" / "python", tmp_path, 1, 2, 3)
    argv = about.command(Deployment("m", tmp_path / "model.onnx", [x], [x], 8, queue_delay_s=0.001), place)
    assert Path(argv[0]).parent == place.python.parent
    assert "0.0.0.0" not in " ".join(argv)


def test_the_page_of_servers_says_what_was_tried() -> None:
    page = (CHECKOUT / "docs" / "reference" / "servers.md").read_text()
    for name in PRODUCTS:
        [row] = re.findall(rf"^\| {name}\b.*$", page, re.MULTILINE | re.IGNORECASE)
        assert row.endswith(f"| yes: {PRODUCTS[name].tried} |")
        assert name == TRITON or f" {version(name)}" in row
    for each in ELSEWHERE:
        [row] = re.findall(rf"^\| {each.name} .*$", page, re.MULTILINE)
        assert row.endswith(f"| no: {each.reason} |")
        assert f"`{each.endpoint_type or 'KServe v2'}`" in row.replace("KServe v2", "`KServe v2`")


def test_every_application_belongs_to_a_product() -> None:
    assert {path.stem for path in APPS.glob("*.py")} == {"__init__", "onnx_model", *OTHERS}
