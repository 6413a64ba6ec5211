"""The docs say what is so: the command-line reference, links, names of files and commands."""

import re
from pathlib import Path

import pytest

from servemark.cli import build
from servemark.cli.cards import cards
from servemark.cli.reference import reference
from servemark.models import workloads
from servemark.paths import CHECKOUT

PAGES = sorted([*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")])


def test_the_command_line_reference_is_current() -> None:
    assert (CHECKOUT / "docs" / "cli.md").read_text() == reference(), "python -m servemark.cli.reference > docs/cli.md"


def test_the_model_cards_are_current() -> None:
    assert (CHECKOUT / "docs" / "models.md").read_text() == cards(), "python -m servemark.cli.cards > docs/models.md"


@pytest.mark.parametrize("name", workloads())
def test_every_model_card_is_complete(name: str) -> None:
    workload = workloads()[name]
    card = cards().partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    for label in ("task", "citation", "parameters", "inputs", "outputs", "requests", "metric", "objective"):
        [value] = re.findall(rf"^\| {label} \| (.+) \|$", card, re.MULTILINE)
        assert value
    assert f"| {workload.parameters:,} |" in card
    assert (CHECKOUT / "loadgen" / f"{workload.locustfile}.py").exists()
    if workload.dataset:
        assert f"`DATA_ROOT/{workload.dataset}`" in card


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_links_and_files_exist(page: Path) -> None:
    text = page.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    files = re.findall(r"`((?:loadgen|servemark|servers|exporters|benchmarks|tests|docs)/[\w./-]+\.(?:py|md))`", text)
    missing += [name for name in files if not (CHECKOUT / name).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_commands_exist(page: Path) -> None:
    blocks = "\n".join(re.findall(r"^```.*?^```", page.read_text(), re.MULTILINE | re.DOTALL))
    commands = set(re.findall(r"^(?:\$ )?servemark ([a-z]+)", blocks, re.MULTILINE))
    assert commands <= set(build().commands)


@pytest.mark.parametrize("name", build().commands)
def test_every_command_has_an_example(name: str) -> None:
    assert f"Example: servemark {name}" in (build().commands[name].help or "")


def test_every_module_has_its_place_in_the_architecture() -> None:
    said = "".join((CHECKOUT / "docs" / name).read_text() for name in ("architecture.md", "distributed.md"))
    modules = [*(CHECKOUT / "loadgen").rglob("*.py"), *(CHECKOUT / "servemark").glob("*.py")]
    locustfiles = {f"{workload.locustfile}.py" for workload in workloads().values()}
    names = {path.name for path in modules if not path.name.startswith("__")} - locustfiles
    assert not {name for name in names if f"{name}`" not in said}


def test_every_workload_has_its_locustfile() -> None:
    missing = [w.name for w in workloads().values() if not (CHECKOUT / "loadgen" / f"{w.locustfile}.py").exists()]
    assert not missing
