"""The layout: each room has its modules, a few of them, says what it is for, and each module its tests at its path."""

import ast
from pathlib import Path

import pytest

from servemark.cli import build
from servemark.paths import CHECKOUT
from servemark.workload import workloads

ROOMS = ("loadgen", "servemark", "exporters", "servers")
MAX_MODULES = 12
MAX_AT_THE_TOP = 6
REGISTRIES = {
    "loadgen": "tests/loadgen/test_locustfiles.py",
    "servemark/models": "tests/servemark/models/test_models.py",
    "servemark/datasets": "tests/servemark/datasets/test_datasets.py",
    "servers/engines": "tests/servers/engines/test_engines.py",
}
"""Folders of like things, however many, and the tests that go through all of them."""
TESTED_TOGETHER = {
    "exporters": ("tests/exporters/pipeline/test_parity.py", "each engine's export of each workload"),
    "exporters/onnx_passes": ("tests/exporters/onnx_passes/test_networks.py", "what they make is run as a whole"),
    "exporters/onnx_to_tensorflow": ("tests/exporters/test_converted.py", "what it makes is run as a whole"),
    "servemark/models/blocks": ("tests/servemark/models/test_models.py", "the models are made of them"),
    "servemark/models/synthesis": ("tests/servemark/models/test_models.py", "the models' requests are made by them"),
}
"""Packages whose modules are tested by what they do together, but for those that have a test of their own."""


def packages() -> list[Path]:
    """Every folder with modules, from the checkout; Triton's own entry points are none of ours to arrange."""
    folders = {path.parent.relative_to(CHECKOUT) for room in ROOMS for path in (CHECKOUT / room).rglob("*.py")}
    return sorted(folder for folder in folders if folder.parts[:2] != ("servers", "backends"))


def modules(package: str | Path) -> list[str]:
    """The names of its modules."""
    return sorted(path.stem for path in (CHECKOUT / package).glob("*.py") if not path.stem.startswith("__"))


@pytest.mark.parametrize("package", packages(), ids=str)
def test_a_package_says_what_it_is_for_and_holds_a_few_modules(package: Path) -> None:
    init = CHECKOUT / package / "__init__.py"
    assert init.exists()
    assert ast.get_docstring(ast.parse(init.read_text())), "what is the package for, and what must it not import?"
    if str(package) not in {*REGISTRIES, "servemark/cli"}:
        assert len(modules(package)) <= MAX_MODULES


def test_the_load_generator_s_top_is_locustfiles_and_what_they_import() -> None:
    assert set(modules("loadgen")) == {workload.locustfile for workload in workloads().values()} | {"users"}


def test_the_top_of_servemark_is_a_few_modules() -> None:
    assert len(modules("servemark")) <= MAX_AT_THE_TOP


def test_the_command_line_holds_commands_and_plumbing_only() -> None:
    assert {name for name in modules("servemark/cli") if not name.startswith("_")} == set(build().commands)


@pytest.mark.parametrize("package", packages(), ids=str)
def test_no_name_of_a_package_is_hidden_by_a_module_of_it(package: Path) -> None:
    """Importing the module would put it in the place of the function."""
    tree = ast.parse((CHECKOUT / package / "__init__.py").read_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    below = {path.name for path in (CHECKOUT / package).iterdir() if path.is_dir()} | set(modules(package))
    assert not defined & below
