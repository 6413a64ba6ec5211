"""Source distribution, wheel and notes of a release, in build/dist: `python -m tools.release [TAG]`.

The workflow of a tag runs it and publishes what it makes. Needs setuptools alone.
"""

import platform
import subprocess
import sys
import tomllib
from pathlib import Path

from servemark import __version__
from servemark.errors import OptionError, ServemarkError
from servemark.paths import CHECKOUT

DIST = CHECKOUT / "build" / "dist"
WHEEL = {"py-limited-api": "cp311", "plat-name": f"manylinux_2_17_{platform.machine()}"}
"""One wheel for all versions of Python; of glibc its C file needs no more than recvmsg and errno (PEP 600)."""
BUILD = "import sys; from setuptools import build_meta as b; print(b.build_sdist(sys.argv[1]))"


def version(tag: str = "") -> str:
    """Return the version that the files and the tag agree on. Raises OptionError."""
    declared = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    named = {"pyproject.toml": declared, "servemark": __version__, "the tag": tag.removeprefix("v") or declared}
    if len(set(named.values())) > 1:
        raise OptionError(f"the versions differ: {named}", fix="give all the same")
    return str(declared)


def notes(released: str, changelog: str) -> str:
    """Return a version's section of the changelog. Raises OptionError where there is none."""
    for section in changelog.split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        if heading.split()[0] == released:
            return text.strip() + "\n"
    raise OptionError(f"CHANGELOG.md has no section {released}", fix=f"add one that begins with: ## {released}")


def build(checkout: Path = CHECKOUT, dist: Path = DIST) -> list[Path]:
    """Build both distributions, the wheel from the source distribution. Raises CalledProcessError."""
    dist.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        [sys.executable, "-c", BUILD, str(dist)], cwd=checkout, check=True, stdout=subprocess.PIPE, text=True
    )
    source = dist / made.stdout.splitlines()[-1]
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    options = [f"--config-settings=--build-option=--{name}={value}" for name, value in WHEEL.items()]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *offline, *options, "-w", str(dist), str(source)], check=True)
    return [source, *dist.glob(f"{source.name.removesuffix('.tar.gz')}-*.whl")]


def main() -> None:
    """Check the version, build, and write the notes."""
    try:
        text = notes(version(*sys.argv[1:]), (CHECKOUT / "CHANGELOG.md").read_text())
    except ServemarkError as error:
        sys.exit(str(error))
    for path in build():
        print(path.relative_to(CHECKOUT))
    (DIST / "notes.md").write_text(text)


if __name__ == "__main__":
    main()
