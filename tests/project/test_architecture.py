"""The layout: each room has its modules, a few of them, says what it is for, and each module its tests at its path."""

import ast
from pathlib import Path

import pytest

from servemark.cli import ELSEWHERE, build
from servemark.paths import CHECKOUT
from servemark.workload import workloads
from servemark.workload.spec import DEFAULT_LOCUSTFILE

ROOMS = ("loadgen", "servemark", "exporters", "servers", "kernels", "dashboards")
MAX_MODULES = 12
MAX_AT_THE_TOP = 8
REGISTRIES = {
    "loadgen": "tests/loadgen/test_locustfiles.py",
    "servemark/figures": "tests/servemark/figures/test_registry.py",
    "servemark/models": "tests/servemark/models/test_models.py",
    "servemark/datasets": "tests/servemark/datasets/test_datasets.py",
    "servemark/quality/metrics": "tests/servemark/quality/metrics/test_metrics.py",
    "kernels/families": "tests/kernels/families/test_families.py",
    "servers/engines": "tests/servers/engines/test_engines.py",
    "servers/products": "tests/servers/products/test_products.py",
    "exporters": "tests/exporters/pipeline/test_parity.py",
    "servemark/results/schema": "tests/servemark/results/test_kinds.py",
    "servemark/views/kinds": "tests/servemark/views/render/test_html.py",
}
"""Folders of like things, however many, and the tests that go through all of them."""
TOGETHER = {
    "dashboards/grafana": "tests/dashboards/test_build.py",
    "loadgen/sut": "tests/loadgen/driver/test_event_loop.py",
    "exporters/onnx_passes": "tests/exporters/onnx_passes/test_networks.py",
    "exporters/onnx_to_tensorflow/operators": "tests/exporters/onnx_to_tensorflow/test_onnx_node_tests.py",
    "servemark/models/blocks": "tests/servemark/models/test_models.py",
    "servemark/models/synthesis": "tests/servemark/models/test_models.py",
    "servers/products/apps": "tests/servers/products/test_onnx_model.py",
}
"""Packages that are tested by what their modules make together: graphs, requests, servers, documents, panels."""


def packages() -> list[Path]:
    """Every folder with modules, from the checkout."""
    return sorted({path.parent.relative_to(CHECKOUT) for room in ROOMS for path in (CHECKOUT / room).rglob("*.py")})


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
    assert set(modules("loadgen")) == {w.locustfile for w in workloads().values()} | {DEFAULT_LOCUSTFILE, "users"}


def test_the_top_of_servemark_is_a_few_modules() -> None:
    assert len(modules("servemark")) <= MAX_AT_THE_TOP


def test_the_command_line_holds_commands_and_plumbing_only() -> None:
    names = {name.rstrip("_") for name in modules("servemark/cli") if not name.startswith("_")}  # import_: a keyword
    assert names == set(build().commands) - ELSEWHERE.keys()


@pytest.mark.parametrize("package", packages(), ids=str)
def test_no_name_of_a_package_is_hidden_by_a_module_of_it(package: Path) -> None:
    """Importing the module would put it in the place of the function."""
    tree = ast.parse((CHECKOUT / package / "__init__.py").read_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    below = {path.name for path in (CHECKOUT / package).iterdir() if path.is_dir()} | set(modules(package))
    assert not defined & below


@pytest.mark.parametrize("package", packages(), ids=str)
def test_a_package_has_tests_at_its_path(package: Path) -> None:
    """Wiring is tested with what it connects, so the rule is about packages, not modules."""
    if str(package) in {*REGISTRIES, *TOGETHER} or not modules(package):
        return
    assert list((CHECKOUT / "tests" / package).glob("test_*.py"))


def test_each_folder_of_tests_stands_at_a_package_s_path() -> None:
    folders = {path.parent.relative_to(CHECKOUT / "tests") for path in (CHECKOUT / "tests").rglob("test_*.py")}
    assert not [
        folder
        for folder in folders
        if folder.parts[:1] in [(room,) for room in ROOMS] and not (CHECKOUT / folder).is_dir()
    ]


def test_the_tests_on_the_lists_are_there() -> None:
    named = {*REGISTRIES.values(), *TOGETHER.values()}
    assert not {name for name in named if not (CHECKOUT / name).exists()}
