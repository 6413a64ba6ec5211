"""Requests of every kind: each field is drawn by its own type, so that a new field is drawn too."""

from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from servemark.documents.fields import Flag, Kind, flag_of
from servemark.documents.flags import KINDS
from servemark.documents.load import MAX_STAGES, Stage
from servemark.documents.request import GROUPS, RunRequest
from servemark.errors import OptionError

words = st.text("abc /.=-:é", min_size=1).map(lambda text: f"x{text}x")
names = st.text("ab/_", min_size=1)
stages = st.builds(Stage, st.floats(1e-3, 1e3), st.floats(1e-3, 1e6), st.none() | st.floats(0, 1e6))
tensors = st.dictionaries(
    names,
    st.tuples(st.sampled_from(["FP32", "BYTES"]), st.lists(st.integers(-1, 9999), max_size=4).map(tuple)),
    min_size=1,
    max_size=3,
)
SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    "url": st.sampled_from(
        ["http://h:8000", "grpc://h:8001", "grpc://h:9#metrics=other:7", "http://[::1]:5", "http://a:1,http://b:1"]
    ),
    "at": st.lists(st.sampled_from(["1.5:true", "3:sh -c 'a; b'"]), unique=True).map(tuple),
    "abort_on": st.sampled_from(["errors:0.1", "p99:500,errors:0.2"]),
    "endpoint_type": st.sampled_from(["", "", "", "kserve-v1"]),
    "cold_start": st.sampled_from([False, False, False, True]),
    "scrape": st.lists(st.sampled_from(["a=http://h:1/m", "b=http://h:2/m#x,y"]), unique=True).map(tuple),
    "request_cancellation": st.none() | st.tuples(st.floats(1e-3, 0.5), st.floats(0, 10)),
    "think_time_s": st.tuples(st.floats(0, 10), st.floats(10, 1e3)),
    "slo": st.sampled_from(["p50:5", "p99:20.5,errors:0.001", "service_p90:7,throughput:100"]),
    "bls_composing_models": st.dictionaries(names, st.sampled_from(["", "2"]), max_size=3),
    "request_parameters": st.dictionaries(
        names,
        st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.just("")
        | words,
        max_size=3,
    ),
    "shape": st.dictionaries(names, st.lists(st.integers(0, 9999), max_size=4).map(tuple), max_size=3),
    "input_tensors": tensors,
    "output_tensors": tensors,
    "input_range": st.dictionaries(names, st.tuples(st.floats(-9, 0), st.floats(0, 1e9)), max_size=3),
    "stages": st.lists(stages, min_size=1, max_size=MAX_STAGES).map(tuple),
    "bounds": st.just("auto") | st.tuples(st.floats(1, 10), st.floats(11, 1e6)),
}


def of_type(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type, within its bounds."""
    plain_type = annotation.__origin__ if hasattr(annotation, "__metadata__") else annotation
    if get_origin(plain_type) in {Union, UnionType}:
        return st.one_of([of_type(part) for part in get_args(plain_type)])
    kind = Kind.of(annotation)
    least, most = kind.bounds.get("ge", kind.bounds.get("gt", -1e6)), min(kind.bounds.get("le", 1e6), 1e6)
    plain: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(int(least), int(most)),
        float: st.floats(least, most, exclude_min="gt" in kind.bounds),
        str: words,
        NoneType: st.none(),
    }
    found = st.sampled_from(kind.choices) if kind.choices else plain[kind.base]
    return st.lists(found, max_size=3).map(tuple) if kind.many else found


def flagged(kind: type[msgspec.Struct]) -> dict[str, Flag]:
    """The fields of a type that have flags."""
    return {name: flag for name in kind.__struct_fields__ if (flag := flag_of(kind, name))}


def parts(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Values of a group or of a kind of load; those that break a rule between fields are drawn again."""
    drawn = {name: SPECIAL[name] if name in SPECIAL else of_type(kind.__annotations__[name]) for name in flagged(kind)}
    required = {field.name for field in msgspec.structs.fields(kind) if field.required}
    optional = {name: each for name, each in drawn.items() if name not in required}
    chosen = st.fixed_dictionaries({name: drawn[name] for name in required}, optional=optional)
    return chosen.map(lambda values: _made(kind, values)).filter(lambda part: part is not None)


def _made(kind: type[msgspec.Struct], values: dict[str, Any]) -> Any:
    try:
        return kind(**values)
    except OptionError:
        return None


def requests() -> st.SearchStrategy[RunRequest]:
    """Requests with values of their own in every group, and each kind of load."""
    groups = {name: parts(kind) for name, kind in GROUPS.items()}
    groups["load"] = st.one_of([parts(kind) for kind in KINDS.values()])
    groups |= {name: of_type(RunRequest.__annotations__[name]) for name in flagged(RunRequest)}
    whole: st.SearchStrategy[Any] = st.fixed_dictionaries({}, optional=groups).map(lambda v: _made(RunRequest, v))
    return whole.filter(lambda request: request is not None)
