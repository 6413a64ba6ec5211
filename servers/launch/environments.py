"""Environments of server products: one for each, made by venv and pip from pins with hashes, in the user's cache."""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from servemark import interrupts
from servemark.errors import ServerError
from servers.products import pins, version

INSTALL_S = 1800.0
"""Deadline of pip, which downloads hundreds of megabytes for some."""
PYTHON = (3, 11)
"""The version that the pins are for."""
SHOWN_LINES = 8
_DONE = "pins.sha256"
_TAKEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""Variables that would let another environment into this one."""


@dataclass(frozen=True)
class Environment:
    """The environment of a product."""

    name: str

    @property
    def folder(self) -> Path:
        """Its place, also before it is made: below XDG_CACHE_HOME, by default ~/.cache."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cache / "servemark" / "servers" / f"{self.name}-{version(self.name)}"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def installed(self) -> bool:
        """Tell whether it holds what the pins say."""
        done = self.folder / _DONE
        return done.is_file() and done.read_text() == self._digest()

    def require(self) -> Path:
        """Return its interpreter. Raises ServerError where it is not installed."""
        if not self.installed:
            raise ServerError(
                f"{self.name} {version(self.name)} is not installed", fix=f"servemark servers install {self.name}"
            )
        return self.python

    def install(self) -> None:
        """Make it anew. Raises ServerError with pip's last lines; what is half done is made again the next time."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        log = self.folder.with_name(f"{self.folder.name}.log")
        pip = [str(self.python), "-m", "pip", "install", "--no-deps", "--require-hashes", "--no-input"]
        with log.open("wb") as said:
            for command in (
                [interpreter(), "-m", "venv", "--clear", str(self.folder)],
                [*pip, "--disable-pip-version-check", "-r", str(pins(self.name))],
            ):
                self._run(command, log, said.fileno())
        (self.folder / _DONE).write_text(self._digest())

    def _run(self, command: list[str], log: Path, said: int) -> None:
        try:
            with interrupts.anywhere():
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    env=own_variables(),
                    timeout=INSTALL_S,
                    check=False,
                )
        except subprocess.TimeoutExpired as error:
            raise ServerError(f"{self.name} is not installed after {INSTALL_S:g} s", fix=f"read {log}") from error
        if done.returncode:
            last = "\n".join(log.read_text(errors="replace").splitlines()[-SHOWN_LINES:])
            raise ServerError(f"{self.name} cannot be installed; pip's last lines:\n{last}", fix=f"read {log}")

    def _digest(self) -> str:
        return hashlib.sha256(pins(self.name).read_bytes()).hexdigest()


def own_variables() -> dict[str, str]:
    """Return this process's variables without those that would let its packages into another environment."""
    return {name: value for name, value in os.environ.items() if name not in _TAKEN}


def interpreter() -> str:
    """Find a Python of the version that the pins are for. Raises ServerError."""
    wanted = ".".join(map(str, PYTHON))
    found = sys.executable if sys.version_info[:2] == PYTHON else shutil.which(f"python{wanted}")
    if found is None:
        raise ServerError(
            f"the pins of server products are for Python {wanted}, which is not on PATH", fix=f"install python{wanted}"
        )
    return found
