"""Unix sockets: the control plane and the load go there, and who listens is known."""

from pathlib import Path
from typing import Any

import pytest

from servemark.errors import ServerError
from tests.golden.grpc import GoldenGrpc
from tests.golden.load import TargetLoad, constant_ns, target_at
from tests.golden.server import GoldenServer
from tests.support.locust_run import run
from tests.support.result_checks import counted_result


@pytest.mark.parametrize(("golden", "protocol"), [(GoldenServer, "http"), (GoldenGrpc, "grpc")])
@pytest.mark.parametrize("flags", [(), ("--no-connection-reuse",)])
def test_a_load_goes_to_a_socket(golden: Any, protocol: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "s"
    with golden(unix=str(path)) as server:
        target = target_at(f"unix:{path}", "--protocol", protocol, *flags)
        assert (target.protocol, target.local, target.processes()) == (protocol, True, [server.pid])
        load = TargetLoad(target).open(constant_ns(400, 40))
        received = server.log()["requests"]
    assert load.kinds == {"ok": 40}
    assert target.clock is not None
    assert target.clock.missing >= 40  # Unix sockets have no stamps
    assert (received if isinstance(received, int) else len(received)) == 40


def test_a_server_that_is_gone_refuses_each_request(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with GoldenServer(unix=str(path)) as server:
        target = target_at(f"unix:{path}")
        first, second = TargetLoad(target), TargetLoad(target)
        server.kill()
        assert first.open(constant_ns(100, 5)).kinds == {"connection_refused": 5}
        path.unlink()
        assert second.open(constant_ns(100, 5)).kinds == {"connection_refused": 5}
        with pytest.raises(ServerError, match=f"no server answers at http.unix:{path}"):
            target.prepare()


def test_a_run_names_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with GoldenServer(unix=str(path)) as server:
        flags = ["--model-name", "golden", "--duration", "0.5", "--warmup", "0.1", "--out", str(tmp_path / "out")]
        run("any_model", *flags, "--url", f"unix:{path}")
        received = server.requests()
    result = counted_result(tmp_path / "out", len(received))
    assert result["resolved"]["url"] == f"http+unix:{path}"

