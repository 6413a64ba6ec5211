"""`--serve`: a `servemark serve` of this run's own, as a process; the stages meet only through a URL."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from loadgen.load.load_config import LoadConfig
from loadgen.transport.server_url import METRICS
from servemark import interrupts
from servemark.errors import ServerError

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 15.0
_POLL_S = 0.1


class ServeProcess:
    """Starts `servemark serve` on free ports and waits until the model is ready. Raises ServerError."""

    def __init__(self, config: LoadConfig) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="servemark-serve-")
        self._ready, self._errors = Path(self._folder.name, "ready.json"), Path(self._folder.name, "errors")
        command = [sys.executable, "-m", "servemark", "serve", config.workload.name]
        command += ["--engine", config.engine, "--precision", config.precision]
        command += ["--model-repository", str(config.model_repository), "--json", "--with-parent"]
        command += ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
        with self._ready.open("w") as ready, self._errors.open("w") as errors:
            self._process = subprocess.Popen(command, stdout=ready, stderr=errors, stdin=subprocess.DEVNULL)
        try:
            served = self._wait()
        except BaseException:
            self.stop()
            raise
        url = f"grpc://{served['grpc']}" if config.protocol == "grpc" else served["url"]
        self.url: str = f"{url}{METRICS}{served['metrics']}"

    def _wait(self) -> dict[str, Any]:
        """`serve --json` prints one document with its URLs when the model is ready."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            text = self._ready.read_text()
            if text.endswith("\n"):
                document: dict[str, Any] = json.loads(text)
                return document
            if self._process.poll() is not None:
                raise ServerError(f"the server did not start:\n{self._errors.read_text().strip()}")
            interrupts.sleep(_POLL_S)
        raise ServerError(f"the server was not ready after {START_TIMEOUT_S:g} s:\n{self._errors.read_text().strip()}")

    def stop(self) -> None:
        """Stop the server, and wait until it is gone."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)
        self._folder.cleanup()
