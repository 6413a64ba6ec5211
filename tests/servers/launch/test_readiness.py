"""Triton's reasons for a model that it does not load, in a sentence with what to do."""

import pytest

from servers.launch.readiness import load_failure

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
