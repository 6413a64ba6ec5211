"""Whole runs over TLS, in processes of their own: every request accounted for, and no secret left behind."""

import sys
from pathlib import Path

import psutil

from servemark.figures.registry import value_of
from servemark.workload import get
from tests.golden.grpc import GoldenGrpc
from tests.support.certificates import Authority, needs_openssl
from tests.support.locust_run import accounted, golden_entry, run, server_of, started, the_result, until
from tests.support.triton import IDENTITY_LOCUSTFILE

pytestmark = needs_openssl

VALUE = "s3cret-t0ken"
AUTHORIZATION = f"Bearer {VALUE}"
TINY = get("ranking_tiny")


def test_a_run_keeps_its_secret(authority: Authority, certificate: str, tmp_path: Path) -> None:
    """`servemark run` over https: every request accounted for, and the token in no file, output or argument."""
    (tmp_path / "headers").write_text(f"Authorization: {AUTHORIZATION}\n")
    golden_entry(tmp_path / "repo")
    out, log = tmp_path / "out", tmp_path / "log"
    with server_of(TINY, certificate=certificate, authorization=AUTHORIZATION, delay_s=0.02) as server:
        flags = ["-u", server.url, "--tls-ca", str(authority.certificate), "--headers", str(tmp_path / "headers")]
        flags += ["--model-repository", str(tmp_path / "repo"), "--out", str(out), "--concurrency", "2"]
        arguments = [sys.executable, "-m", "servemark", "run", "ranking_tiny", "--duration", "2", "--warmup", "0.1"]
        with started([*arguments, *flags], log) as process:
            until(server.requests, "a request")
            every = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            assert len(every) > 1
            assert not any(VALUE in part for each in every for part in each.cmdline())
            process.wait(60)
        assert accounted(the_result(out)) == len(server.requests())
    result = the_result(out)
    assert value_of(result, "errors.count") == 0
    assert value_of(result, "server.queue") is not None  # the statistics came with the field, too
    assert result["resolved"]["headers"] == ["authorization"]
    tls = {"ca": str(authority.certificate), "client_certificate": False, "version": "TLSv1.3"}
    assert result["resolved"]["tls"].items() > tls.items()
    assert result["resolved"]["tls"]["cipher"].startswith("TLS_")
    assert result["protocol"] == "http"
    for file in [log, *(path for path in out.rglob("*") if path.is_file())]:
        assert VALUE not in file.read_text()


def test_locust_over_grpcs(authority: Authority, certificate: str, tmp_path: Path) -> None:
    (tmp_path / "headers").write_text(f"Authorization: {AUTHORIZATION}\n")
    with GoldenGrpc(model="identity", certificate=certificate, authorization=AUTHORIZATION, delay_s=0.02) as server:
        flags = ["--model-name", "identity", "--url", server.url, "--streaming", "--out", str(tmp_path / "out")]
        flags += ["--tls-ca", str(authority.certificate), "--headers", str(tmp_path / "headers")]
        done = run(IDENTITY_LOCUSTFILE, *flags, "--duration", "1", "--warmup", "0.1")
        result = the_result(tmp_path / "out")
        assert accounted(result) == server.log()["requests"], done.stderr
    assert value_of(result, "errors.count") == 0
    assert (result["resolved"]["url"], result["protocol"]) == (server.url, "grpc")
    assert result["resolved"]["tls"]["version"] in {"TLSv1.2", "TLSv1.3"}
