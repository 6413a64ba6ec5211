"""Chromium without a window, driven over its DevTools protocol; tests that need it are skipped where there is none."""

import base64
import contextlib
import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import websocket

from servers.launch.process import Command, Process
from tests.support.locust_run import until

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH (Debian: apt install chromium)")


class Page:
    """One tab of the browser."""

    def __init__(self, address: str) -> None:
        # Chromium refuses a connection with an Origin that it was not told of.
        self.socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
        self.numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        """Of the domains that were enabled, as they came between the answers of `call`."""

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol; events that come meanwhile are kept."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])
            self.events.append(message)

    def evaluate(self, expression: str) -> Any:
        """A JavaScript expression's value."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait until an expression is true, which it is not while it raises: a page may still be loading."""
        return until(lambda: self.evaluate(f"(() => {{ try {{ return {expression} }} catch {{ }} }})()"), expression)

    def open(self, url: str, *, dark: bool = False) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=url)
        self.until(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    def screenshot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextlib.contextmanager
def page(folder: Path, *more: str, width: int = 1280, height: int = 1000) -> Iterator[Page]:
    """A browser of its own, its profile in the folder; `more` are flags of Chromium."""
    assert CHROMIUM
    profile, log = folder / "profile", folder / "chromium.log"
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
    flags += ["--remote-debugging-port=0", f"--user-data-dir={profile}", f"--window-size={width},{height}", *more]
    browser = Process(Command([CHROMIUM, *flags, "about:blank"]), log)  # its helpers have sessions of their own
    try:
        port_file = profile / "DevToolsActivePort"
        until(lambda: port_file.exists() and port_file.read_text().count("\n"), "Chromium")
        port = int(port_file.read_text().split()[0])
        tabs = requests.get(f"http://127.0.0.1:{port}/json/list", timeout=30).json()
        tab = Page(next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"))
        with contextlib.closing(tab.socket):
            yield tab
    finally:
        browser.stop()
