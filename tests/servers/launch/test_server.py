"""Reasons in Triton's log, in the words of Triton 2.51; models and addresses of a server of ours."""

from pathlib import Path

import pytest

from servemark.errors import ArtifactError
from servers.launch.process import Command
from servers.launch.server import Server, ServerJob, TritonLog, load_failure

POLL = 'E1127 12:19:24.555813 532 model_repository_manager.cc:1460] "Poll failed for model directory'
LOAD = 'E1127 12:19:32.538709 616 model_repository_manager.cc:724] "failed to load model'
PARSER = (
    "[libprotobuf ERROR /tmp/text_format.cc:337] Error parsing text-format inference.ModelConfig: 3:1: "
    'Message type "inference.ModelConfig" has no field named "foo".'
)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([f"{POLL} 'm': model input 't' must specify 'dims' for m\""], "model input 't' must specify 'dims' for m"),
        ([f"{LOAD} 'm': at least one version must be available\""], "at least one version must be available"),
        ([PARSER, f"{POLL} 'm': failed to read text proto from m/config.pbtxt\""], 'has no field named "foo"'),
        ([f'{POLL} \'m\': unexpected \\"x\\" in it"'], 'unexpected "x" in it'),
        ([f"{POLL} 'm': as older releases write it".replace('] "', "] ")], "as older releases write it"),
    ],
)
def test_a_refusal_is_quoted(tmp_path: Path, lines: list[str], words: str) -> None:
    log = tmp_path / "triton.log"
    log.write_text("\n".join(["I1127 all is well", *lines, ""]))
    with pytest.raises(ArtifactError) as error:
        TritonLog(log, tmp_path / "repo").check(["other", "m"])
    assert error.value.what.startswith("Triton cannot load m: ")
    assert words in error.value.what
    assert str(tmp_path / "repo" / "m" / "config.pbtxt") in str(error.value.fix)


def test_the_log_is_read_as_it_grows(tmp_path: Path) -> None:
    log = tmp_path / "triton.log"
    log.write_text(f"{POLL} 'other': not ours\"\n{POLL} 'm': half a li")
    read = TritonLog(log, tmp_path)
    read.check(["m"])
    with log.open("a") as file:
        file.write('ne"\n')
    with pytest.raises(ArtifactError, match="half a line"):
        read.check(["m"])
    read.check(["m"])


@pytest.mark.parametrize(
    ("asked", "loaded"),
    [
        (["outer"], ["first", "second", "inner", "outer"]),
        (["second", "outer"], ["second", "first", "inner", "outer"]),
        (["circle"], ["back", "circle"]),
    ],
)
def test_ensembles_come_after_what_they_run_also_those_of_ensembles(
    tmp_path: Path, asked: list[str], loaded: list[str]
) -> None:
    steps = {"outer": ["inner", "second"], "inner": ["first", "second"], "circle": ["back"], "back": ["circle"]}
    for model, names in steps.items():
        (tmp_path / model).mkdir()
        (tmp_path / model / "config.pbtxt").write_text("".join(f'step {{ model_name: "{name}" }}\n' for name in names))
    assert Server("own", lambda _: Command([]), ServerJob(tmp_path, asked)).models == loaded


@pytest.mark.parametrize(
    ("host", "shown"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("fe80::2", "[fe80::2]")],
)
def test_an_address_of_ipv6_stands_in_brackets(tmp_path: Path, host: str, shown: str) -> None:
    ports = {"--http-port": 1, "--grpc-port": 2, "--metrics-port": 3}
    server = Server("own", lambda _: Command([]), ServerJob(tmp_path, [], host, ports))
    assert (server.http, server.grpc, server.metrics) == (f"{shown}:1", f"{shown}:2", f"{shown}:3")


NO_GPU = (
    "Invalid argument: instance group m_0 of model m specifies invalid or unsupported gpu id 3. GPUs with at least the "
    "minimum required CUDA compute compatibility of 6.000000 are: "
)


@pytest.mark.parametrize(
    ("reason", "what", "fix"),
    [
        (
            "Internal: ValueError: no such file\n\nAt:\n  model.py(7): <module>",
            "Internal: ValueError: no such file",
            None,
        ),
        (
            "Internal: ServerError: torch is missing\n  fix: install it",
            "Internal: ServerError: torch is missing",
            "install it",
        ),
        (NO_GPU, "it is to run on GPU 3, and Triton sees no such GPU here", "name a GPU that `servemark doctor` shows"),
    ],
)
def test_a_reason_is_what_went_wrong_and_its_fix(reason: str, what: str, fix: str | None) -> None:
    error = load_failure("m", reason)
    assert error.what == f"Triton cannot load m: {what}"
    assert (error.fix or "").startswith(fix or "")
    assert (error.fix is None) == (fix is None)
