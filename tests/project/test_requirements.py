"""requirements.lock is installed with --no-deps: it must be complete and agree with pyproject.toml by itself."""

import tomllib
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from servemark.paths import CHECKOUT

# What the lock overrules on purpose; its header says why.
OVERRULED = {("nvidia-pytriton", "numpy"), ("pyctcdecode", "numpy")}
UNPINNED = {"tensorrt"}
"""Its wheels fetch their libraries from NVIDIA's own index: who has a GPU installs the extra."""


def pins() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in (CHECKOUT / "requirements.lock").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        requirement = Requirement(line)
        [specifier] = requirement.specifier
        assert specifier.operator == "=="
        assert requirement.url is None
        if requirement.marker is None or requirement.marker.evaluate():
            name = canonicalize_name(requirement.name)
            assert name not in found, f"{name} is pinned twice"
            found[name] = specifier.version
    return found


def test_every_dependency_is_pinned_to_a_version_that_fits() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *(r for group in project["optional-dependencies"].values() for r in group)]
    pinned = pins()
    todo = [("servemark", Requirement(text)) for text in declared]
    seen = set()
    while todo:
        parent, requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if name in {"servemark", *UNPINNED} or (parent, str(requirement)) in seen:
            continue
        seen.add((parent, str(requirement)))
        assert name in pinned, f"{name}, which {parent} needs, is not in requirements.lock"
        fits = requirement.specifier.contains(pinned[name], prereleases=True)
        assert fits or (parent, name) in OVERRULED, f"{parent} needs {requirement}, pinned is {pinned[name]}"
        for text in metadata.requires(name) or []:
            below = Requirement(text)
            if below.marker is None or any(below.marker.evaluate({"extra": e}) for e in {"", *requirement.extras}):
                todo.append((name, below))
    assert len(seen) > len(declared)
    unused = pinned.keys() - {canonicalize_name(Requirement(text).name) for _, text in seen}
    assert not unused, f"nothing needs {sorted(unused)}"


def test_every_pin_takes_the_first_python_that_the_readme_names() -> None:
    """Debian 12 has Python 3.11.2, and some packages ask for a later patch of it."""
    said = {name: metadata.metadata(name).json.get("requires_python", "") for name in pins().keys() - UNPINNED}
    assert not {name: text for name, text in said.items() if "3.11.2" not in SpecifierSet(str(text))}
