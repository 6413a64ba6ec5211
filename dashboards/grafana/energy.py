"""GPU and energy: what the machine that runs the generator does, and what Triton says of its own work.

The first rows are this machine's meters (NVML, RAPL). On a remote server Triton's own metrics are what there is.
"""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.grafana._board import WIDTH, Line, board, figure, graph, row, variable
from dashboards.grafana._queries import JOULES, OK, RATE, REQUESTS, highest, now, rate, total

MODEL = 'model=~"$model"'
US_PER_S = 1e6
BY_METER = ("boundary", "source")
METER = "{{boundary}} ({{source}})"
INFERENCES = "nv_inference_count"
PARTS = {
    "queue": "nv_inference_queue_duration_us",
    "compute input": "nv_inference_compute_input_duration_us",
    "compute infer": "nv_inference_compute_infer_duration_us",
    "compute output": "nv_inference_compute_output_duration_us",
}
"""Of a request inside Triton (its user guide, "Metrics")."""


def dashboard() -> Dashboard:
    """GPU, energy and Triton's own figures."""
    made = board(
        "energy",
        "servemark: GPU, energy and Triton",
        "Meters of the generator's machine, and Triton's own metrics.",
        variable("model", INFERENCES),
    )
    made = row(
        made,
        "Energy",
        figure(
            "joules of a request",
            "Energy over answered requests, all of the chosen runs. Each boundary counts what lies inside it.",
            "joule",
            Line(f"{total(JOULES, by=BY_METER)} / on () group_left () {total(REQUESTS, OK)}", METER),
            width=WIDTH // 3,
            height=8,
        ),
        graph(
            "power", "As the meters read it.", "watt", Line(now("servemark_power_watts", by=BY_METER), METER), width=8
        ),
        graph(
            "joules of a request and of an inference",
            "Over the last moments. A request of batch 8 is eight inferences, which Triton counts.",
            "joule",
            Line(_per(rate(JOULES, by=BY_METER), rate(REQUESTS, OK)), f"request, {METER}"),
            Line(_per(rate(JOULES, by=BY_METER), _triton(INFERENCES)), f"inference, {METER}"),
            width=8,
        ),
    )
    made = row(
        made,
        "GPU and machine",
        *(
            graph(f"GPU {name}", description, unit, Line(_gpu(metric), "GPU {{gpu}}"), width=8)
            for name, description, unit, metric in (
                ("utilisation", "Share of time in which a kernel ran (NVML).", "percentunit", "utilization_ratio"),
                ("memory", "In use (NVML).", "bytes", "memory_used_bytes"),
                ("power", "As the GPU reads it (NVML).", "watt", "power_watts"),
                ("clock", "Of its multiprocessors.", "hertz", "sm_clock_hertz"),
                ("temperature", "NVML.", "celsius", "temperature_celsius"),
            )
        ),
        graph(
            "GPU throttled",
            "1 while the GPU holds its clock back, by reason.",
            "none",
            Line(highest("servemark_gpu_throttled", by=("gpu", "reason")), "GPU {{gpu}} {{reason}}"),
            width=8,
        ),
        graph(
            "CPU",
            "All cores of the generator's machine.",
            "percentunit",
            Line(highest("servemark_cpu_utilization_ratio"), "in use"),
        ),
        graph("memory", "Of the generator's machine.", "bytes", Line(highest("servemark_memory_used_bytes"), "in use")),
    )
    return row(
        made,
        "Triton",
        graph(
            "a request inside Triton",
            "Mean time of each part. The queue grows where the model is too slow or waits to fill a batch.",
            "s",
            *(Line(_part(metric), f"{name} {{{{model}}}}") for name, metric in PARTS.items()),
            stacked=True,
        ),
        graph(
            "executed batch size",
            "Inferences over executions: how many samples the dynamic batcher joined.",
            "none",
            Line(
                _per(_triton(INFERENCES, "model"), _triton("nv_inference_exec_count", "model"), ("model",)), "{{model}}"
            ),
        ),
        graph(
            "requests",
            "As Triton counts them.",
            "reqps",
            Line(_triton("nv_inference_request_success", "model"), "answered {{model}}"),
            Line(_triton("nv_inference_request_failure", "model"), "failed {{model}}"),
        ),
        graph(
            "pending requests",
            "Received by Triton and not yet executed.",
            "short",
            Line(f"sum by (model) (nv_inference_pending_request_count{{{MODEL}}})", "{{model}}"),
        ),
        *(
            graph(f"GPU {name} of the server", "Triton's own reading.", unit, Line(metric, "{{gpu_uuid}}"), width=8)
            for name, unit, metric in (
                ("utilisation", "percentunit", "nv_gpu_utilization"),
                ("memory", "bytes", "nv_gpu_memory_used_bytes"),
                ("power", "watt", "nv_gpu_power_usage"),
            )
        ),
    )


def _gpu(metric: str) -> str:
    """Read a GPU's gauge; several runs on one machine read the same."""
    return highest(f"servemark_gpu_{metric}", by=("gpu",))


def _triton(metric: str, *by: str) -> str:
    return f"sum by ({', '.join(by)}) (rate({metric}{{{MODEL}}}[{RATE}]))"


def _part(metric: str) -> str:
    """Mean seconds of a part of a request."""
    seconds = f"{_triton(metric, 'model')} / {US_PER_S:g}"
    return _per(seconds, _triton("nv_inference_request_success", "model"), ("model",))


def _per(amount: str, count: str, on: tuple[str, ...] = ()) -> str:
    return f"{amount} / on ({', '.join(on)}) group_left () {count}"
