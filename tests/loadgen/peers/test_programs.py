"""Other generators: the load they are told, and what they report, as they printed it on 2026-11-24."""

import shlex
import stat
from pathlib import Path

import pytest

from loadgen.peers.programs import PEERS, H2load, PeerError, PeerFigures, PeerLoad, PerfAnalyzer

HEAD = b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: h\r\nContent-Type: application/octet-stream\r\n"
HTTP = HEAD + b"Inference-Header-Content-Length: 2\r\nContent-Length: 6\r\n\r\n{}\x00\r\n\r"
CLOSED = PeerLoad("http://127.0.0.1:8000", "identity", HTTP, in_flight=32, duration_s=3)
GRPC = PeerLoad("grpc://127.0.0.1:8001", "identity", b"\0\0\0\0\1\n", in_flight=4, duration_s=3)
CONSTANT = PeerLoad(CLOSED.url, "identity", HTTP, in_flight=4, duration_s=3, rate=100, poisson=False)
POISSON = PeerLoad(CLOSED.url, "identity", HTTP, in_flight=4, duration_s=3, rate=100)
TOLD = {
    ("perf_analyzer", CLOSED): "-m identity -u 127.0.0.1:8000 -i http -p 1000 -s 1000 --concurrency-range 32",
    ("perf_analyzer", GRPC): "-u 127.0.0.1:8001 -i grpc --concurrency-range 4",
    ("perf_analyzer", POISSON): "--request-rate-range 100 --max-threads 4 --request-distribution poisson",
    ("perf_analyzer", CONSTANT): "--request-distribution constant",
    ("wrk", CLOSED): "--threads 1 --connections 32 --duration 3s http://127.0.0.1:8000/v2/models/identity/infer",
    ("hey", CLOSED): "-m POST -c 32 -z 3s -T application/octet-stream -H 'Inference-Header-Content-Length: 2'",
    ("hey", CONSTANT): "-q 25 http://127.0.0.1:8000/v2/models/identity/infer",
    ("ab", CLOSED): "-k -r -c 32 -t 3 -H 'Inference-Header-Content-Length: 2'",
    ("locust", CONSTANT): "--headless -H http://127.0.0.1:8000 -u 4 -t 4s",
    ("h2load", CLOSED): "--clients 32 --duration 3 --h1 --header 'Inference-Header-Content-Length: 2'",
    ("h2load", GRPC): "--header 'te: trailers' http://127.0.0.1:8001/inference.GRPCInferenceService/ModelInfer",
}
REFUSED = {
    ("wrk", GRPC): "HTTP/1.1 only", ("wrk", POISSON): "no open loop", ("hey", GRPC): "HTTP only",
    ("hey", POISSON): "no Poisson", ("h2load", CONSTANT): "of connections",
    ("ab", GRPC): "HTTP/1.0 only", ("ab", CONSTANT): "no open loop", ("locust", GRPC): "HTTP only",
    ("locust", POISSON): "no Poisson",
}  # fmt: skip

COLUMNS = "Client Send,p50 latency,p90 latency,p95 latency,p99 latency"
HEY = """
  Requests/sec:\t2148.4326

Latency distribution:
  50% in 0.0105 secs
  99% in 0.0723 secs

Status code distribution:
  [200]\t4322 responses
  [503]\t4 responses

Error distribution:
  [2]\tPost "http://127.0.0.1:36507/v2/models/identity/infer": EOF
"""
H2LOAD = """
finished in 3.01s, 2153.50 req/s, 720.26KB/s
requests: 4307 total, 4307 started, 4307 done, 4304 succeeded, 3 failed, 0 errored, 0 timeout
status codes: 4304 2xx, 0 3xx, 0 4xx, 3 5xx
"""
AB = """
Complete requests:      633
Failed requests:        36
   (Connect: 0, Receive: 12, Length: 12, Exceptions: 12)
Requests per second:    631.12 [#/sec] (mean)

Percentage of the requests served within a certain time (ms)
  50%      5
  99%     12
 100%     14 (longest request)
"""
LOCUST = """
Type     Name              # reqs      # fails |    Avg     Min     Max    Med |   req/s  failures/s
--------|----------------|-------|-------------|-------|-------|-------|-------|--------|-----------
         Aggregated          2950   19(0.64%) |      8       1      35      7 |  983.33        6.33

Response time percentiles (approximated)
Type     Name                 50%    66%    75%    80%    90%    95%    98%    99%  99.9% 99.99%   100% # reqs
--------|----------------|-------|------|------|------|------|------|------|------|------|------|------|------
         Aggregated             7      8      9      9     11     12     14     15     29     35     35   2950
"""
WRK = '{"us": 2000000, "requests": 5000, "failed": 7, "50": 66, "90": 80, "95": 90, "99": 210, "99.9": 4000}'
REPORTS = {
    "perf_analyzer": (
        "",
        {"report.csv": f"Concurrency,Inferences/Second,{COLUMNS}\n32,3937.9,1795,6597,14897,17942,35798\n"},
        PeerFigures(3937.9, {50: 6.597, 90: 14.897, 95: 17.942, 99: 35.798}),
    ),
    "wrk": ("", {"report.json": WRK}, PeerFigures(2500, {50: 0.066, 90: 0.08, 95: 0.09, 99: 0.21, 99.9: 4}, 7)),
    "hey": (HEY, {}, PeerFigures(2148.4326, {50: 10.5, 99: 72.3}, 6)),
    "ab": (AB, {}, PeerFigures(631.12, {50: 5, 99: 12, 100: 14}, 36)),
    "locust": (
        LOCUST,
        {},
        PeerFigures(
            983.33, dict(zip((50, 66, 75, 80, 90, 95, 98, 99, 99.9), (7, 8, 9, 9, 11, 12, 14, 15, 29), strict=True)), 19
        ),
    ),
    "h2load": (
        H2LOAD,
        {"log": "".join(f"1795528021973075\t200\t{us}\n" for us in range(1, 502))},
        PeerFigures(2153.5, {50: 0.251, 90: 0.451, 95: 0.476, 99: 0.496, 99.9: 0.501}, 3),
    ),
}


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is installed: the real ones are not needed to tell them a load."""
    for name in PEERS:
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho it was started\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv(name.upper(), str(program))


@pytest.mark.parametrize(("told", "words"), TOLD.items(), ids=lambda each: str(each)[:30])
def test_each_is_told_the_load(told: tuple[str, PeerLoad], words: str, tmp_path: Path) -> None:
    name, load = told
    assert PEERS[name].refusal(load) is None
    command = PEERS[name].command(load, tmp_path)
    assert command[0] == str(tmp_path / name)
    for word in shlex.split(words):
        assert word in command
    body = tmp_path / "body"
    assert name == "perf_analyzer" or body.read_bytes() == (load.request if load is GRPC else b"{}\x00\r\n\r")


def test_wrks_script_sends_the_same_bytes(tmp_path: Path) -> None:
    PEERS["wrk"].command(CLOSED, tmp_path)
    script = (tmp_path / "script.lua").read_text()
    assert f'io.open("{tmp_path}/body", "rb")' in script
    assert 'wrk.headers = {["Content-Type"] = "application/octet-stream", ["Inference-Header' in script


@pytest.mark.parametrize(("asked", "words"), REFUSED.items(), ids=lambda each: str(each)[:30])
def test_what_one_cannot_do_it_says(asked: tuple[str, PeerLoad], words: str) -> None:
    assert words in (PEERS[asked[0]].refusal(asked[1]) or "")


@pytest.mark.parametrize("name", PEERS)
def test_its_report_is_read(name: str, tmp_path: Path) -> None:
    output, files, figures = REPORTS[name]
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    assert PEERS[name].read(output, tmp_path) == figures


def test_perf_analyzer_calls_requests_late(tmp_path: Path) -> None:
    (tmp_path / "report.csv").write_text(
        f"Request Rate,Inferences/Second,{COLUMNS}\n2000,1988.8,74,628,1295,2808,6154\n"
    )
    words = "[WARNING] Perf Analyzer was not able to keep up. 31.77% of the requests were delayed.\n"
    assert PerfAnalyzer().read(words, tmp_path).late_share == pytest.approx(0.3177)
    assert PerfAnalyzer().read("", tmp_path).late_share == 0


def test_h2load_without_a_log_has_no_percentiles(tmp_path: Path) -> None:
    assert not any("log-file" in word for word in H2load(timed=False).command(CLOSED, tmp_path))
    assert H2load(timed=False).read(H2LOAD, tmp_path) == PeerFigures(2153.5, {}, 3)


@pytest.mark.parametrize("name", PEERS)
def test_one_that_is_missing_or_says_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PeerError, match=rf"{name} reported nothing that can be read:\nit was started"):
        PEERS[name].measure(CLOSED)
    monkeypatch.setenv(name.upper(), "/nowhere/it")
    assert "install" in (PEERS[name].refusal(CLOSED) or "")
    with pytest.raises(PeerError, match=f"{name}: not on PATH, nor where {name.upper()}= says"):
        PEERS[name].measure(CLOSED)
