"""Documents of the commands that prepare a measurement."""

from pathlib import Path
from typing import Annotated, ClassVar

from servemark.documents.commands import Command, Json, Repository, Workload
from servemark.documents.fields import IMPORT, MODELS, Natural, NotNegative, Port, argument, folder, option
from servemark.documents.live import LOOPBACK
from servemark.documents.request import DEFAULT_ENGINE, PRECISIONS, Engine, Precision
from servemark.documents.server import Device, EngineOptions, Instances
from servemark.paths import DATA_ROOT, MODEL_REPOSITORY
from servemark.quantities import SECONDS


class Doctor(Command, frozen=True, kw_only=True):
    """Show what this machine can do: CPU, GPU, Triton, engines, energy meters, ports.

    Exit code 0 if models can be exported, served and loaded here, else 3. Where nothing for that is installed, or with
    --generator: 0 if load can be sent from here. Example: servemark doctor --json
    """

    generator: Annotated[bool, option("A machine that only sends load: no Triton, engines and exports.")] = False
    json: Json = False


class List(Command, frozen=True, kw_only=True):
    """Show the workloads: task, suites, size, cost, interface, metric. Or the figures: unit, direction, meaning.

    A figure can be an objective (--slo), fail a comparison (--fail-on) and be followed (history --metric). With
    --library: the names of a library's models, each of which every command takes as LIBRARY/NAME.

    Example: servemark list --library timm mobilenet
    """

    TAKES: ClassVar = frozenset({MODELS})
    what: Annotated[
        str, argument("`figures`: what a result may hold; with --library a part of the names.", "[figures|TEXT]")
    ] = ""
    library: Annotated[str, option("List the models of timm, torchvision or transformers.")] = ""
    suite: Annotated[str, option("Only the workloads of this suite, like aibench or mlperf-inference.")] = ""
    json: Json = False


class Import(Command, frozen=True, kw_only=True):
    """Import a model file as a workload, which every command takes by its name.

    Example: servemark import my_model.onnx --name my_model --shape image:3,224,224
    """

    TAKES: ClassVar = frozenset({IMPORT, MODELS})
    path: Annotated[
        Path,
        argument(
            "ONNX file, torch.export program (.pt2), SavedModel, Triton entry, the folder of a Transformers or timm "
            "model (config.json and *.safetensors), or a library's model as LIBRARY/NAME.",
            "PATH",
        ),
    ]
    name: Annotated[str, option("Name of the workload; if not given, the file's.", metavar="NAME")] = ""
    input_data: Annotated[
        str, option("Real requests (.json, .npz, folder); random ones if not given.", metavar="PATH")
    ] = ""
    max_batch: Annotated[
        Natural | None, option("Most samples in a request, 32 if not given; 0 if the tensors have no batch dimension.")
    ] = None
    force: Annotated[bool, option("Replace an imported model of this name.")] = False
    json: Json = False


class Export(Command, frozen=True, kw_only=True):
    """Export workloads, check each against eager PyTorch, and write Triton repository entries.

    Example: servemark export ranking resnet50 --engine onnxruntime
    """

    TAKES: ClassVar = frozenset({MODELS})
    workloads: Annotated[
        tuple[str, ...], argument("Workloads; `servemark list` shows them.", "[WORKLOAD]...", completion="workload")
    ] = ()
    engine: Annotated[tuple[str, ...], option("Inference engine; repeatable.")] = ()
    precision: Annotated[tuple[str, ...], option(f"{', '.join(PRECISIONS)}; repeatable.", metavar="P")] = ()
    all_workloads: Annotated[bool, option("Export every workload.", name="all")] = False
    force: Annotated[bool, option("Export again, and overwrite an edited config.pbtxt.")] = False
    weights: Annotated[
        str,
        option("Weights (.safetensors, state_dict), now and in later exports; `seeded`: random ones.", metavar="FILE"),
    ] = ""
    model_repository: Repository = MODEL_REPOSITORY
    json: Json = False


class Serving(Command, frozen=True, kw_only=True):
    """Options of `servemark serve`: where an engine runs, and where Triton listens."""

    device: Device = ""
    engine_options: EngineOptions = ()
    instances: Instances = None
    http_port: Annotated[Port, option("KServe v2 over HTTP; 0 picks a free port.")] = 8000
    grpc_port: Annotated[Port, option("KServe v2 over gRPC; 0 picks a free port.")] = 8001
    metrics_port: Annotated[Port, option("Prometheus metrics; 0 picks a free port.")] = 8002
    host: Annotated[str, option("Address to listen on.")] = LOOPBACK
    mode: Annotated[str, option("auto, embedded, native (tritonserver on PATH) or docker.")] = "auto"
    start_timeout_s: Annotated[NotNegative, option("Give up when not ready by then.", units=SECONDS)] = 120.0
    otlp: Annotated[
        str, option("Collector (OTLP, HTTP) for spans of requests that carry a traceparent.", metavar="URL")
    ] = ""


class Serve(Serving, frozen=True, kw_only=True):
    """Serve exported workloads and hand-written pipelines with Triton until Ctrl-C.

    Example: servemark serve ranking resnet50 --engine onnxruntime
    """

    TAKES: ClassVar = frozenset({MODELS})
    names: Annotated[
        tuple[str, ...],
        argument("Workloads, or other directories of the model repository.", "WORKLOAD...", completion="workload"),
    ]
    engine: Engine = DEFAULT_ENGINE
    precision: Precision = "fp32"
    model_repository: Repository = MODEL_REPOSITORY
    with_parent: Annotated[bool, option("End when the parent process ends.", hidden=True)] = False
    json: Json = False


class ServersInstall(Command, frozen=True, kw_only=True):
    """Make the environment of each product in the user's cache, from pins with hashes. pip takes minutes for some.

    Example: servemark servers install mlserver
    """

    SHORT: ClassVar = "Make the environments of products."
    names: Annotated[tuple[str, ...], argument("Products, like mlserver.", "NAME...")]
    json: Json = False


class Servers(Command, frozen=True, kw_only=True):
    """List the servers that `compare --servers` or `--url` takes: what each can do, and whether it was tried.

    Example: servemark servers

    Example: servemark servers install mlserver litserve
    """

    PARTS: ClassVar = {"install": ServersInstall}
    ALONE: ClassVar = True
    json: Json = False


class Data(Command, frozen=True, kw_only=True):
    """Fetch a data set into DATA_ROOT/KEY in its official layout, where it can be had. Without a KEY, list all.

    Example: servemark data ml-100k
    """

    key: Annotated[str, argument("Data set, like ml-100k. Else all are listed.", "[KEY]")] = ""
    data_root: Annotated[Path, folder("Where data sets lie, one folder for each.", DATA_ROOT)] = DATA_ROOT
    json: Json = False


class Init(Command, frozen=True, kw_only=True):
    """Write run.yaml and locustfile.py, a start for a workload, into the working directory.

    Example: servemark init ranking && servemark run --config run.yaml
    """

    workload: Workload
    force: Annotated[bool, option("Replace files that are there.")] = False
