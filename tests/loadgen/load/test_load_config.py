"""A run as it is made of its request."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loadgen.load.arrivals import Share, Users
from loadgen.load.load_config import LoadConfig, in_zoo, out_of_range
from servemark.documents.load import ConstantRate
from servemark.documents.request import RunRequest
from servemark.errors import OptionError
from servemark.workload import Tensor
from tests.support.load_config import arguments, config


def test_credentials_are_not_part_of_the_request(tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("Authorization: Bearer secret-token\n")
    found = config("ranking_tiny", "--headers", str(tmp_path / "headers"))
    assert found.access.headers
    assert "secret" not in " ".join(arguments(found.request))
    assert "secret" not in str(found.to_dict())


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"batch_size": 10_000}, "--batch-size 10000 is above"), ({"streaming": True}, "--streaming is for gRPC")],
)
def test_a_variant_is_checked_as_what_it_is_made_from_was(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        config().changed(**changes)


def test_a_variant_has_what_its_request_says() -> None:
    found = config().changed(load=ConstantRate(rate=7, duration_s=4), slo="p50:5", seed=9)
    assert (found.scenario.rate, found.duration_s, found.seed) == (7, 4, 9)
    assert [str(slo) for slo in found.slo] == ["p50:5"]


def test_an_order_makes_the_same_run_in_another_process(tmp_path: Path) -> None:
    at = config("ranking_tiny", "--request-rate", "5", "--protocol", "grpc").at("grpc://h:9#metrics=other:7")
    made = replace(at, result_dir=tmp_path, start_file=tmp_path / "begin")
    again = LoadConfig.ordered(made.order, in_zoo)
    assert again == made
    assert (again.url, again.metrics_url) == ("grpc://h:9", "http://other:7/metrics")
    assert again.request.server.url == ""


def test_the_usual_request_is_a_closed_loop_of_one() -> None:
    found = LoadConfig.of(RunRequest(workload="ranking_tiny"))
    assert (found.concurrency, found.open_loop, found.url) == (1, False, "http://127.0.0.1:8000")


def test_users_of_a_closed_loop_are_shared_out_and_have_random_numbers_of_their_own() -> None:
    found = config("ranking_tiny", "--concurrency", "3", "--think-time", "0.2", "--seed", "5")
    assert found.users(Share(0, 2)) == Users(2, (0.2, 0.2), "5 0")
    assert found.users(Share(1, 2)) == Users(1, (0.2, 0.2), "5 1")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--shape", "usr:1"], "--shape names 'usr', which is not an input of ranking_tiny\n.*one of: user, seq"),
        (["--shape", "seq:6"], r"--shape seq:6 does not fit ranking_tiny's seq INT32\[5\]"),
        (["--input-range", "usr:0:1"], "--input-range names 'usr'"),
        (["--input-range", "seq:0:3000000000"], r"beyond INT32 \(-2147483648 to 2147483647\)"),
        (["--input-range", "seq:0.5:1"], "no whole numbers"),
    ],
)
def test_what_a_model_cannot_take(flags: list[str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        config("ranking_tiny", *flags)


@pytest.mark.parametrize(
    ("datatype", "least", "most", "words"),
    [
        ("UINT64", 0, 2**64 - 1, None),
        ("UINT64", -1, 5, r"is beyond UINT64 \(0 to 18446744073709551615\)"),
        ("UINT64", 0, 2**64, "is beyond UINT64"),
        ("INT64", -(2**63), 2**63 - 1, None),
        ("INT64", 0, 2**63, "is beyond INT64"),
        ("INT64", 0, 9007199254740994.0, "no whole numbers"),
        ("FP32", 0, 2**64, None),
        ("FP16", 0, 65505, "is beyond FP16"),
        ("FP64", -1e308, 1e308, "is beyond FP64"),
    ],
)
def test_a_range_has_the_bounds_of_its_datatype(datatype: str, least: float, most: float, words: str | None) -> None:
    found = out_of_range(Tensor("x", datatype, (1,)), least, most)
    assert found is None if words is None else re.search(words, found or "")
