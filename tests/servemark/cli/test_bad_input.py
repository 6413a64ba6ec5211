"""Bad input to any command ends in a message and exit code 3, before anything is measured."""

from pathlib import Path

import pytest

from tests.support.command_line import BAD_INPUT, Servemark

BAD: list[tuple[str, list[str]]] = [
    ("run rankin", ["unknown workload 'rankin'", "servemark list", "did you mean ranking, ", "--url URL"]),
    ("run ranking --engine nope", ["engine 'nope' is unknown", "onnxruntime"]),
    ("serve no_such", ["unknown workload 'no_such'"]),
    ("serve ranking --engine nope", ["engine 'nope' is unknown", "onnxruntime"]),
    ("export no_such", ["unknown workload 'no_such'"]),
    ("export ranking --engine nope", ["engine 'nope' is unknown", "onnxruntime"]),
    ("export", ["no workload was named", "--all"]),
    ("list --suite nope", ["no workload belongs to the suite 'nope'"]),
    ("data nope", ["'nope' cannot be fetched", "ml-100k"]),
    ("run ranking --request-rate fast", ["--request-rate 'fast' is not a number"]),
    ("run ranking --request-rate-range 10", ["'10' is not START:END[:STEP]"]),
    ("run ranking --request-rate-range 10:5", ["START <= END"]),
    ("run ranking --request-rate-range 1:10:0", ["STEP above 0"]),
    ("run ranking --request-rate-range 1:1e300:1e-300", ["asks for inf runs"]),
    ("run ranking --input-data r\udce9s", ["is not UTF-8"]),
    (f"show {'a' * 300}", ["File name too long", "that this user can reach"]),
    ("run ranking -u http://h:1 --metrics-url http://[::1/m", ["'http://[::1/m' is not http://HOST:PORT/metrics"]),
    ("compare ranking --urls [::1,b", ["--urls '[::1,b' has no two names"]),
    ("run ranking --concurrency-range 1:2:1.5", ["1.5 is not a whole number"]),
    ("run ranking --max-rate", ["--max-rate needs an objective", "--slo p99:50"]),
    ("run ranking --arrival-trace /no/such.csv", ["--arrival-trace /no/such.csv cannot be read: No such file"]),
    ("run ranking --slo 99:50", ["--slo '99:50' is not pXX:LIMIT", "--slo p99:50"]),
    ("run ranking --slo p99:50parsecs", ["--slo '50parsecs' is not a number", "--slo p99:50"]),
    ("run ranking --slo throughput:0", ["above 0 requests/s"]),
    ("run ranking --slo p99:0", ["above 0 ms"]),
    ("run ranking --batch-size 1000", ["above ranking's maximum of 128"]),
    ("run ranking --warmup=-1", ["--warmup -1 must be at least 0"]),
    ("run ranking --url ftp://localhost", ["'ftp://localhost' is not http://HOST:PORT"]),
    ("run ranking --in-process --workers 2", ["--in-process has no server", "--workers"]),
    ("run ranking --no-such-flag", ["--no-such-flag"]),
    ("suite nope", ["suite 'nope' is unknown", "aibench"]),
    ("suite subset --engine nope", ["engine 'nope' is unknown", "onnxruntime"]),
    ("run", ["WORKLOAD", "fix: servemark run --help"]),
    ("no_such_command", ["no_such_command", "fix: servemark --help"]),
    ("export --all ranking", ["--all and 'ranking' exclude each other"]),
    ("serve ranking --http-port 70000", ["--http-port 70000 is above 65535"]),
    ("run ranking --stages 10:-1", ["--stages: rate -1 must be at least 0"]),
    ("run ranking -u http://127.0.0.1:1 --metrics-url x", ["--metrics-url 'x' is not http://HOST:PORT/metrics"]),
    ("run ranking=1,ncf=1", ["a mix has Poisson arrivals at one rate"]),
    ("run ranking=1,ncf=1 --max-rate --slo p99:5", ["a mix has no --max-rate"]),
    ("run ranking=1,ncf=1 --request-rate 5 --request-distribution constant", ["a mix has Poisson arrivals"]),
    ("run ranking=1,nfc=1 --request-rate 5", ["unknown workload 'nfc'"]),
    ("run ranking --in-process --max-rate --slo p99:5", ["--in-process has no server"]),
    ("compare no_such --engines onnxruntime,pytorch", ["unknown workload"]),
    ("compare ranking --engines onnxruntime,pytorch --concurrency 2 --request-rate 5", ["exclude each other"]),
    ("compare ranking --engines onnxruntime,pytorch --max-rate", ["--max-rate needs an objective"]),
    ("compare ranking --engines onnxruntime,pytorch --tuned", ["--tuned needs an objective"]),
    ("compare ranking --engines onnxruntime,pytorch --tuned --slo p99:50", ["--tuned with a closed loop"]),
    (
        "compare ranking --engines onnxruntime,pytorch --tuned --max-rate --slo p99:50 -u http://127.0.0.1:9",
        ["a server that runs already cannot be"],
    ),
    ("compare ranking --engines onnxruntime", ["names one engine"]),
    ("compare ranking --engines onnxruntime,pytorch,openvino --fail-on p99", ["--fail-on with 3 engines"]),
    ("compare ranking --engines onnxruntime,pytorch --fail-on speed", ["there is no figure 'speed'", "p99"]),
    ("compare ranking --urls http://127.0.0.1:9", ["--urls 'http://127.0.0.1:9' names one server"]),
    ("compare ranking --urls 127.0.0.1:9,127.0.0.1:9", ["--urls '127.0.0.1:9,127.0.0.1:9' has no two names"]),
    ("compare ranking --urls 127.0.0.1:8,127.0.0.1:9 -u http://127.0.0.1:9", ["--urls with --url"]),
    ("compare ranking --urls h:8,h:9 --engines onnxruntime,pytorch,openvino", ["3 engines with 2 --urls"]),
    ("compare results/a --baseline no_such", ["there is no baseline no_such", "servemark baseline no_such RESULT"]),
    ("baseline ../x results/a", ["'../x' cannot be a baseline's name"]),
    ("compare ranking ncf --engines onnxruntime,pytorch", ["--engines with 2 workloads"]),
    ("compare ranking --engines onnxruntime,pytorch -u http://127.0.0.1:9 --device cpu", ["runs already"]),
    ("compare wgan --engines onnxruntime,pytorch --quality", ["no labels can be read for wgan: "]),
    ("suite own", ["there is no workload of your own", "servemark import"]),
    ("characterise own --starts 0", ["there is no workload of your own", "servemark import"]),
    ("synthesise vgg16 no_such", ["unknown workload 'no_such'"]),
    ("explain results/no_such", ["'results/no_such' is neither a workload nor the directory of a run"]),
    ("baseline main results/no_such", ["there is no result results/no_such", "fix: name a result directory"]),
    ("baseline main /etc/passwd", ["/etc/passwd is not a result", "fix: name a result directory"]),
    ("import ./my-model", ["my-model is not there", "SavedModel, or the folder of Transformers or timm"]),
    ("dashboards export /dev/null", ["/dev/null/compose.yaml cannot be written", "name another folder"]),
    ("tune ranking_tiny", ["tune needs an objective"]),
    ("tune ranking_tiny --slo p99:50 --batch-size 1000", ["is above"]),
    ("run --config /no/such.yaml", ["/no/such.yaml cannot be read: No such file or directory\n", "servemark init"]),
    ("run ranking_tiny --input-data /no/such.npz", ["--input-data /no/such.npz: no such file or folder"]),
    ("run ranking_tiny --in-process --input-data /etc/hostname", ["ranking_tiny cannot read /etc/hostname"]),
    ("run ranking_tiny=1,ncf=1 --request-rate 5 --input-data /etc/hostname", ["cannot read /etc/hostname"]),
    ("compare ranking_tiny --engines onnxruntime,openvino --input-data /no/such.npz", ["no such file or folder"]),
    ("tune ranking_tiny --slo p99:50 --input-data /no/such.npz", ["no such file or folder"]),
]

MEASURES = {"run", "compare", "tune"}


@pytest.mark.parametrize(("line", "words"), BAD, ids=[line for line, _ in BAD])
def test_bad_input(line: str, words: list[str], servemark: Servemark, tmp_path: Path) -> None:
    command, *flags = line.split()
    if command in MEASURES:
        flags += ["--out", str(tmp_path / "out"), "--model-repository", str(tmp_path / "models")]
    code, out, err = servemark(command, *flags)
    assert (code, out) == (BAD_INPUT, "")
    assert all(word in err for word in words), err
    assert err.startswith("servemark: ")
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "models").exists()
