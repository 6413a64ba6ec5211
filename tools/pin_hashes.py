"""Hashes of what a lock pins: `python -m tools.pin_hashes [LOCK] [REPORT ...] > requirements.hashes`.

pip says which wheels it would install on Linux x86-64 for each Python version, and their SHA-256, with
`pip install --dry-run --report`. That downloads 8 GB and takes minutes for each version; reports that pip has written
before can be named instead. The file has names, versions and hashes, and no addresses.
Without LOCK it is of requirements.lock.

`python -m tools.pin_hashes --resolve mlserver==1.7.1 onnxruntime==1.31.1 > servers/products/mlserver.txt` pins what pip
resolves for this Python, which is 3.11: the environment of a server product.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from servemark.paths import CHECKOUT

LOCK = CHECKOUT / "requirements.lock"
PYTHONS = ("3.11", "3.12", "3.13")
HEAD = """# Written by `python -m tools.pin_hashes` from {lock}: the SHA-256 of each wheel that pip takes on
# Linux x86-64 for CPython 3.11, 3.12 and 3.13. `make setup` installs these and no others:
#
#     pip install --no-deps --only-binary=:all: --require-hashes -r {hashes}
"""
RESOLVED = """# Written by `python -m tools.pin_hashes --resolve {wanted}`:
# what pip resolved for CPython {python} on Linux x86-64, with the SHA-256 of each file.
"""
Hashes = Mapping[tuple[str, str], set[str]]


def head(lock: Path) -> str:
    """Return the first lines of a lock's file of hashes."""
    return HEAD.format(lock=lock.name, hashes=lock.with_suffix(".hashes").name)


def hashes(reports: Iterable[Mapping[str, Any]]) -> Hashes:
    """SHA-256 of the wheels in pip's reports, by canonical name and version."""
    found: dict[tuple[str, str], set[str]] = {}
    for report in reports:
        for item in report["install"]:
            key = canonicalize_name(item["metadata"]["name"]), item["metadata"]["version"]
            found.setdefault(key, set()).add(item["download_info"]["archive_info"]["hashes"]["sha256"])
    return found


def lines(lock: Sequence[str], known: Hashes) -> list[str]:
    """The lock's requirements, each with the hashes of its wheels. Raises SystemExit where one has none."""
    pinned = []
    for text in lock:
        if not text or text.startswith("#"):
            continue
        requirement = Requirement(text)
        [specifier] = requirement.specifier
        wheels = known.get((canonicalize_name(requirement.name), specifier.version))
        if not wheels:
            raise SystemExit(f"pip's reports have no wheel of {text}; name one for each of Python {', '.join(PYTHONS)}")
        pinned.append(" ".join([text, *(f"--hash=sha256:{each}" for each in sorted(wheels))]))
    return pinned


def of_python(lock: Sequence[str], python: str) -> list[str]:
    """The lock's requirements for a Python version; pip would judge their markers by the one that runs it."""
    all_of_them = [Requirement(text) for text in lock if text and not text.startswith("#")]
    version = {"python_version": python, "python_full_version": f"{python}.0"}
    return [f"{each.name}{each.specifier}" for each in all_of_them if not each.marker or each.marker.evaluate(version)]


def ask_pip(lock: Path, python: str) -> dict[str, Any]:
    """Ask pip what it would install of a lock for a Python version."""
    with tempfile.TemporaryDirectory() as folder:
        report, wanted = Path(folder, "report.json"), Path(folder, "wanted.txt")
        wanted.write_text("\n".join(of_python(lock.read_text().splitlines(), python)))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        command += ["--only-binary=:all:", "--ignore-requires-python"]
        command += ["--python-version", python, "--target", folder]
        subprocess.run([*command, "--report", str(report), "-r", str(wanted)], check=True)
        answer: dict[str, Any] = json.loads(report.read_text())
    return answer


def resolve(wanted: Sequence[str]) -> str:
    """Return the pins of all that pip would install for these requirements, with hashes."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*command, "--report", str(report), *wanted], check=True)
        known = hashes([json.loads(report.read_text())])
    pinned = [f"{name}=={version}" for name, version in sorted(known)]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return RESOLVED.format(wanted=" ".join(wanted), python=python) + "\n".join(lines(pinned, known)) + "\n"


def main() -> None:
    """Write the file to stdout."""
    names = sys.argv[1:]
    if names[:1] == ["--resolve"]:
        sys.stdout.write(resolve(names[1:]))
        return
    lock = Path(names.pop(0)) if names and names[0].endswith(".lock") else LOCK
    given = [json.loads(Path(name).read_text()) for name in names]
    known = hashes(given or (ask_pip(lock, python) for python in PYTHONS))
    sys.stdout.write(head(lock) + "\n".join(lines(lock.read_text().splitlines(), known)) + "\n")


if __name__ == "__main__":
    main()
