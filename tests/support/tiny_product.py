"""A server product for the tests: Python's own HTTP server over the shared model, in this environment."""

import shutil
import sys
from pathlib import Path

import pytest

from servers.launch import product_server
from servers.launch.product_server import Environment
from servers.products import APPS, PRODUCTS, Product

NAME = "tiny"
APP = """
import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from onnx_model import JOB, OnnxModel

# One that leaves the process group, as Ray's do.
subprocess.Popen(["sleep", "600"], start_new_session=True)
if JOB["model"] == "broken":
    sys.exit("no such model")
model = OnnxModel()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def say(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.say(b"ready")

    def do_POST(self):
        sample = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.say(json.dumps(model.answer([sample])[0]).encode())

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", JOB["http_port"]), Handler).serve_forever()
"""
PRODUCT = Product(
    package=NAME,
    guide="",
    batching="",
    instances="",
    tried="",
    ready="/ready",
    endpoint_type="predict",
    single_samples=True,
)


def install(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Add the product to those that are known, with its application in a folder."""
    apps = folder / "apps"
    apps.mkdir()
    (apps / f"{NAME}.py").write_text(APP)
    shutil.copy(APPS / "onnx_model.py", apps)
    monkeypatch.setattr(product_server, "APPS", apps)
    monkeypatch.setitem(PRODUCTS, NAME, PRODUCT)
    monkeypatch.setattr("servers.products.version", lambda _: "1")
    monkeypatch.setattr("servemark.compare.interleaved.hosting.version", lambda _: "1")
    monkeypatch.setattr(product_server, "version", lambda _: "1")
    monkeypatch.setattr(Environment, "require", lambda _: Path(sys.executable))
