"""The engines of a comparison: how they are named, who can take part, and as which models they are served."""

from pathlib import Path

import pytest

from exporters.pipeline import config_pbtxt
from servemark.compare.interleaved.contenders import (
    ENGINES,
    SERVERS,
    Contender,
    Contestants,
    configuration,
    lay_out,
    parse_contenders,
)
from servemark.compare.interleaved.hosting import deployment
from servemark.errors import ArtifactError, OptionError
from servemark.repository.entry import Entry
from servemark.workload import get
from tests.support.load_config import config

TINY = "ranking_tiny"


@pytest.mark.parametrize(
    ("flag", "named", "sweep", "words"),
    [
        (ENGINES, "onnxruntime,nope", "", "engine 'nope' is unknown"),
        (ENGINES, "onnxruntime,pytorch@fp7", "", "precision 'fp7' is unknown"),
        (ENGINES, "onnxruntime,py torch", "", "is not ENGINE"),
        (ENGINES, "onnxruntime,pytorch:compile", "", "is not ENGINE"),
        (ENGINES, "onnxruntime,,pytorch", "", "is not ENGINE"),
        (ENGINES, "onnxruntime@int8", "precision=fp32,int8", "which has one of its own"),
        (ENGINES, "onnxruntime:batch=2", "batch=1,8", "which has one of its own"),
        (ENGINES, "onnxruntime", "batch", "is not KEY=VALUE"),
        (ENGINES, "onnxruntime", "batch=1,", "is not KEY=VALUE"),
        (ENGINES, "onnxruntime", "batch=1 batch=2", "each key once"),
        (ENGINES, "onnxruntime", "instances=0,1", "instances"),
        (SERVERS, "triton,onnxruntime", "", "server 'onnxruntime' is unknown"),
        (SERVERS, "mosec:threads=2", "", "threads is not an option of a server"),
        (SERVERS, "mosec:batching=maybe", "", "batching 'maybe' is unknown"),
    ],
)
def test_contenders_that_make_no_sense(flag: str, named: str, sweep: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        parse_contenders(named, "fp32", sweep, flag=flag)


def test_engines_with_precision_options_and_twice() -> None:
    found = parse_contenders("onnxruntime, pytorch@fp16:compile=true:x=2,onnxruntime", "int8")
    assert found == [
        Contender("onnxruntime", "int8", "onnxruntime", {}),
        Contender("pytorch", "fp16", "pytorch@fp16:compile=true:x=2", {"compile": "true", "x": "2"}),
        Contender("onnxruntime", "int8", "onnxruntime#2", {}),
    ]
    assert found[1].slug == "pytorch@fp16-compile-true-x-2"


def test_a_sweep_is_each_engine_with_each_combination() -> None:
    found = parse_contenders("onnxruntime, pytorch:compile=true", "fp32", "precision=fp32,int8 instances=1,2 batch=8")
    assert [c.label for c in found[:4]] == [
        f"onnxruntime@{precision}:instances={count}:batch=8" for precision in ("fp32", "int8") for count in (1, 2)
    ]
    last = found[-1]
    assert (last.engine, last.precision, last.options) == ("pytorch", "int8", {"compile": "true"})
    assert (last.instances, last.batch_size, last.configured) == (2, 8, True)
    assert len(found) == 8


def test_an_engine_that_cannot_take_part_is_an_error_or_left_out_with_its_reason() -> None:
    chosen = parse_contenders("onnxruntime,pytorch,onnxruntime", "fp32")

    def step(contender: Contender) -> None:
        if contender.engine == "pytorch":
            raise ArtifactError("no such package", fix="install it")

    with pytest.raises(ArtifactError, match="pytorch cannot be compared here: no such package") as error:
        Contestants(chosen, may_leave_out=False).require(step)
    assert error.value.fix == "install it; or leave it out with --skip-unavailable"
    found = Contestants(chosen, may_leave_out=True)
    found.require(step)
    assert ([c.label for c in found.contenders], found.left_out) == (
        ["onnxruntime", "onnxruntime#2"],
        {"pytorch": "no such package"},
    )
    with pytest.raises(OptionError, match="1 of 2 engines"):
        Contestants(chosen[:2], may_leave_out=True).require(step)


def test_contenders_with_options_are_models_of_their_own(tmp_path: Path) -> None:
    workload = get(TINY)
    entry = Entry(tmp_path / "models", TINY, "pytorch")
    entry.version.mkdir(parents=True)
    (entry.version / "model.pt2").write_bytes(b"a program")
    text = config_pbtxt.render(workload, model=entry.model, engine="pytorch", artifact="model.pt2", device="cpu")
    entry.config.write_text(text)
    chosen = parse_contenders("pytorch,pytorch:compile=true,pytorch:compile=true", "fp32")
    entries = {contender.label: entry for contender in chosen}
    configs = {contender.label: configuration(contender, entry, "cpu") for contender in chosen}
    served, models = lay_out(entries, configs, tmp_path / "models", tmp_path / "scratch")
    assert served == tmp_path / "scratch"
    assert list(models.values()) == [f"{TINY}_pytorch", f"{TINY}_pytorch_2", f"{TINY}_pytorch_2"]
    changed = (served / f"{TINY}_pytorch_2" / "config.pbtxt").read_text()
    assert f'name: "{TINY}_pytorch_2"' in changed
    assert "compile" in changed
    assert "compile" not in (served / f"{TINY}_pytorch" / "config.pbtxt").read_text()
    assert (served / f"{TINY}_pytorch_2" / "1" / "model.pt2").is_file()
    unchanged = {"pytorch": configuration(chosen[0], entry, "")}
    plain, names = lay_out({"pytorch": entry}, unchanged, tmp_path / "models", tmp_path / "scratch")
    assert (plain, names) == (tmp_path / "models", {"pytorch": f"{TINY}_pytorch"})


def test_servers_are_written_like_engines() -> None:
    found = parse_contenders("triton@int8:batching=off, mosec:instances=2", "fp32", flag=SERVERS)
    assert found == [
        Contender("onnxruntime", "int8", "triton@int8:batching=off", batching=False, server="triton"),
        Contender("onnxruntime", "fp32", "mosec:instances=2", instances=2, server="mosec"),
    ]


@pytest.mark.parametrize(("edit", "delay_s"), [("", 0.001), ("max_queue_delay_microseconds: 5000", 0.005)])
def test_every_server_is_deployed_as_config_pbtxt_has_it(tmp_path: Path, edit: str, delay_s: float) -> None:
    workload = get(TINY)
    entry = Entry(tmp_path, TINY, "onnxruntime")
    entry.folder.mkdir()
    text = config_pbtxt.render(workload, model=entry.model, engine="onnxruntime", artifact="model.onnx", device="cpu")
    entry.config.write_text(text.replace("# max_queue_delay_microseconds: 500", edit))
    first, second = parse_contenders("mosec:instances=2,mosec:batching=off", "fp32", flag=SERVERS)
    run = config(TINY)
    found = deployment(run, entry, configuration(first, entry, ""))
    assert (found.model, found.inputs, found.max_batch) == (entry.model, workload.inputs, workload.max_batch)
    assert (found.instances, found.threads, found.queue_delay_s) == (2, 1, delay_s)
    alone = deployment(run, entry, configuration(second, entry, ""))
    assert (alone.instances, alone.queue_delay_s) == (1, None)
    assert "dynamic_batching" not in configuration(second, entry, "")
