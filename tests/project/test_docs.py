"""The docs say what is so: the command-line reference, links, names of files and commands."""

import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from servemark.cli import build
from servemark.paths import CHECKOUT
from servemark.results.kinds import KINDS
from servemark.workload import workloads
from tools import site_pages
from tools.cli_reference import reference
from tools.model_cards import cards, models

DOCS = CHECKOUT / "docs"
PAGES = sorted(page for page in (*CHECKOUT.glob("*.md"), *DOCS.rglob("*.md")) if page.parent != site_pages.FOLDER)


def test_the_command_line_reference_is_current() -> None:
    page = DOCS / "reference" / "cli.md"
    assert page.read_text() == reference(), f"python -m tools.cli_reference > {page.relative_to(CHECKOUT)}"


def test_the_reference_says_where_each_document_comes_from() -> None:
    files = site_pages.result_page().partition("\n## Files\n")[2].partition("\n## ")[0]
    documents = [types[0].__name__ for types in KINDS.values()]
    assert not [each for each in documents if f"[{each}](#{each.lower()}) |" not in files]


def test_the_models_are_current() -> None:
    page = DOCS / "reference" / "models.md"
    assert page.read_text() == models(), f"python -m tools.model_cards > {page.relative_to(CHECKOUT)}"


@pytest.mark.parametrize("name", workloads())
def test_every_model_card_is_complete(name: str) -> None:
    workload = workloads()[name]
    card = cards().partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    for label in ("task", "citation", "parameters", "inputs", "outputs", "requests", "metric", "objective"):
        [value] = re.findall(rf"^\| {label} \| (.+) \|$", card, re.MULTILINE)
        assert value
    assert f"| {workload.parameters:,} |" in card
    if workload.dataset:
        assert f"`DATA_ROOT/{workload.dataset}`" in card


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_links_and_files_exist(page: Path) -> None:
    text = page.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    files = re.findall(
        r"`((?:loadgen|servemark|servers|exporters|kernels|benchmarks|tests|tools|docs)/[\w./-]+\.(?:py|md))`", text
    )
    missing += [name for name in files if not (CHECKOUT / name).exists()]
    assert not missing


def test_pages_that_the_code_names_exist() -> None:
    """Errors and docstrings send readers to pages; one that has moved is found here."""
    packages = ("loadgen", "servemark", "servers", "exporters", "kernels", "benchmarks", "recipes", "tests", "tools")
    named = {
        page
        for package in packages
        for path in (CHECKOUT / package).rglob("*.py")
        for page in re.findall(r"(?<![\w/.-])docs/[\w/-]+\.(?:md|txt|jsonl?)\b", path.read_text())
    }
    assert named
    assert not [page for page in sorted(named) if not (CHECKOUT / page).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_anchors_exist(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
    missing = [
        f"{link}#{anchor}" for link, anchor in links if anchor not in _anchors(page.parent / link if link else page)
    ]
    assert not missing


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings in links, as GitHub makes them of their text."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_commands_can_be_typed(page: Path) -> None:
    """Each command of a block or a sentence exists, and takes the options that stand there."""
    wrong = {}
    for line in _commands(page.read_text()):
        command: click.Command = build()
        arguments = shlex.split(line, comments=True)
        try:
            while isinstance(command, click.Group) and (arguments or not command.invoke_without_command):
                command = command.commands[arguments.pop(0)]
            command.make_parser(click.Context(command, **command.context_settings)).parse_args(arguments)
        except (KeyError, IndexError, click.UsageError) as error:
            wrong[line] = str(error)
    assert not wrong


def _commands(text: str) -> Iterator[str]:
    """Yield what follows `servemark` in each command, as far as a shell gives it to the program."""
    block = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    blocks = "\n".join(block.findall(text)).replace("\\\n", " ")
    found = re.findall(r"^(?:\$ )?servemark (.+)$", blocks, re.MULTILINE)
    for line in found + re.findall(r"`servemark ([a-z][^`]*)`", block.sub("", text)):
        yield re.split(r" (?:&&|&|\|\||\||>>?)(?: |$)", line)[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_imports_exist(page: Path) -> None:
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        compile(block, str(page), "exec")
        # Not loadgen's: the users bring Locust, which patches the process.
        for module, names in re.findall(r"^from (servemark[\w.]*) import (.+)$", block, re.MULTILINE):
            assert not [name for name in names.split(", ") if not hasattr(importlib.import_module(module), name)]


@pytest.mark.parametrize("name", build().commands)
def test_every_command_has_an_example(name: str) -> None:
    assert f"Example: servemark {name}" in (build().commands[name].help or "")
