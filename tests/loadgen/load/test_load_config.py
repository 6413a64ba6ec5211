"""The configuration of a run and its command line, which say the same."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.load.arrivals import Distribution, Stage
from loadgen.load.load_config import LoadConfig
from loadgen.load.scenario import MAX_CV, MIN_CV, ClosedLoop, ConstantRate, Gaps, Scenario, Stages, TraceReplay
from loadgen.load.trace import read_trace
from servemark.errors import OptionError
from servemark.results.objectives import Figure, Slo
from servemark.workload import get
from servemark.workload.agreement import PRECISIONS
from tests.support.load_config import config

WORKLOADS = ("ranking_tiny", "resnet50_tiny", "ncf_tiny")
paths = st.text("abc /.=-", min_size=1).map(lambda text: Path(f"x{text}"))
seconds = st.floats(0.001, 3600)
rates = st.floats(1e-6, 1000)
gamma = st.builds(Gaps, st.just(Distribution.GAMMA), st.floats(MIN_CV, MAX_CV))
gaps = st.sampled_from([Gaps(Distribution.POISSON), Gaps(Distribution.CONSTANT)]) | gamma
warmups = st.floats(0, 100)
slos = st.one_of(
    st.builds(
        Slo, st.floats(50, 99.9999), st.floats(1e-4, 1e4), st.sampled_from([Figure.LATENCY, Figure.SERVICE_TIME])
    ),
    st.builds(Slo, st.just(0.0), st.floats(0, 0.9), st.just(Figure.ERRORS)),
    st.builds(Slo, st.just(0.0), st.floats(0.1, 1e6), st.just(Figure.THROUGHPUT)),
)
stages = st.lists(st.builds(Stage, st.floats(0.001, 100), rates), min_size=1, max_size=10).map(tuple)


def configs(trace: Path) -> st.SearchStrategy[LoadConfig]:
    """Configurations of every scenario, each field with values of its own."""
    scenarios: st.SearchStrategy[Scenario] = st.one_of(
        st.builds(ClosedLoop, concurrency=st.integers(1, 10_000), duration_s=seconds, warmup_s=warmups),
        st.builds(ConstantRate, request_rate=rates, gaps=gaps, duration_s=seconds, warmup_s=warmups),
        st.builds(Stages, stages=stages, gaps=gaps, warmup_s=warmups),
        st.builds(TraceReplay, trace=st.just(read_trace(trace)), warmup_s=warmups),
    )
    addresses = st.sampled_from(["http://h:8000", "grpc://h:8001", "grpc://h:9#metrics=other:7", "http://[::1]:5"])
    optional_path = st.none() | paths
    return st.builds(
        lambda address, streaming, changes: replace(
            (found := config().at(address)), **changes, streaming=streaming and found.protocol == "grpc"
        ),
        addresses,
        st.booleans(),
        st.fixed_dictionaries(
            {
                "workload": st.sampled_from(WORKLOADS).map(get),
                "engine": st.sampled_from(["onnxruntime", "pytorch"]),
                "precision": st.sampled_from(PRECISIONS),
                "model_name": st.none() | st.just("mine"),
                "batch_size": st.integers(1, 2),
                "scenario": scenarios,
                "seed": st.integers(0, 2**40),
                "slo": st.lists(slos, unique_by=lambda slo: slo.name, max_size=3).map(tuple),
                "input_data": st.sampled_from(["synthetic", "dataset", "a b.json"]),
                "data_root": paths,
                "model_repository": paths,
                "out": paths,
                "result_dir": optional_path,
                "start_file": optional_path,
                "request_timeout_s": st.floats(1e-5, 1e5),
                "max_in_flight": st.integers(1, 10_000),
                "max_error_share": st.floats(0, 1),
                "shared_memory": st.sampled_from(["none", "system", "cuda"]),
                "request_log": st.booleans(),
                "power": st.none() | st.just(("read-meter 'a b'", "pdu")),
                "sampling_rate_hz": st.sampled_from([0.0, 10.0, 2.5, 100.0]),
            }
        ),
    )


@given(data=st.data())
def test_the_command_line_of_a_configuration_makes_it_again(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = tmp_path_factory.getbasetemp() / "trace.csv"
    trace.write_text("0\n0.5\n")
    drawn = data.draw(configs(trace))
    assert LoadConfig.parse(drawn.arguments()) == drawn


def test_access_is_part_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("Authorization: Bearer secret-token\n")
    found = config("ranking_tiny", "--headers", str(tmp_path / "headers"))
    assert LoadConfig.parse(found.arguments()) == found
    assert "secret" not in " ".join(found.arguments())


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"batch_size": 10_000}, "--batch-size 10000 is above"), ({"streaming": True}, "--streaming is a way of gRPC")],
)
def test_a_variant_is_checked_as_what_it_is_made_from_was(changes: dict[str, int], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        replace(config(), **changes)  # type: ignore[arg-type]
