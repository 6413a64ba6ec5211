"""However many kinds and messages a server makes up, few are kept."""

from loadgen.measurement.failures import MAX_KINDS, MAX_MESSAGES, OTHER, Failures


def test_kinds_with_a_servers_number_are_few_and_others_keep_their_name() -> None:
    failures = Failures()
    kinds = [failures.kind(f"http_{number}") for number in range(100, 1000)]
    assert kinds[:MAX_KINDS] == [f"http_{number}" for number in range(100, 100 + MAX_KINDS)]
    assert set(kinds[MAX_KINDS:]) == {OTHER}
    assert failures.kind("http_100") == "http_100"
    # What the verdict looks for has its name however late it comes.
    assert [failures.kind(kind) for kind in ("timeout", "backend_died", "client_error")] == [
        "timeout", "backend_died", "client_error",
    ]  # fmt: skip


def test_only_the_first_messages_of_a_kind_are_told() -> None:
    failures = Failures()
    told = [failures.words("http_503", f"request {number}") for number in range(20)]
    assert told == [f"request {number}" for number in range(MAX_MESSAGES)] + [""] * (20 - MAX_MESSAGES)
    assert failures.words("http_503", "request 0") == "request 0"
    assert failures.words("http_500", "request 7") == "request 7"
