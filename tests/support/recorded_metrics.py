"""Metrics of a machine with a GPU and a Triton, for machines that have neither: names, labels and units.

Triton's names are those of its 2.51 with a GPU ("Metrics" in its user guide). Counters grow by the second, so that
rates of them are above 0. The values are invented.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODEL = 'model="ranking_tiny_onnxruntime",version="1"'
GPU = 'gpu_uuid="GPU-0000"'
METER = 'boundary="gpu",source="nvml"'
TRITON_COUNTERS = {
    f"nv_inference_request_success{{{MODEL}}}": 100.0,
    f'nv_inference_request_failure{{{MODEL},reason="OTHER"}}': 1.0,
    f"nv_inference_count{{{MODEL}}}": 100.0,
    f"nv_inference_exec_count{{{MODEL}}}": 40.0,
    f"nv_inference_request_duration_us{{{MODEL}}}": 250_000.0,
    f"nv_inference_queue_duration_us{{{MODEL}}}": 50_000.0,
    f"nv_inference_compute_input_duration_us{{{MODEL}}}": 10_000.0,
    f"nv_inference_compute_infer_duration_us{{{MODEL}}}": 180_000.0,
    f"nv_inference_compute_output_duration_us{{{MODEL}}}": 10_000.0,
    f"nv_energy_consumption{{{GPU}}}": 300.0,
}
TRITON_GAUGES = {
    f"nv_inference_pending_request_count{{{MODEL}}}": 2.0,
    f"nv_gpu_utilization{{{GPU}}}": 0.6,
    f"nv_gpu_memory_used_bytes{{{GPU}}}": 4e9,
    f"nv_gpu_power_usage{{{GPU}}}": 300.0,
}
MACHINE_COUNTERS = {f"servemark_energy_joules_total{{{METER},RUN}}": 300.0}
MACHINE_GAUGES = {
    f"servemark_power_watts{{{METER},RUN}}": 300.0,
    'servemark_gpu_utilization_ratio{gpu="0",RUN}': 0.6,
    'servemark_gpu_memory_used_bytes{gpu="0",RUN}': 4e9,
    'servemark_gpu_power_watts{gpu="0",RUN}': 300.0,
    'servemark_gpu_temperature_celsius{gpu="0",RUN}': 55.0,
    'servemark_gpu_sm_clock_hertz{gpu="0",RUN}': 1.7e9,
    'servemark_gpu_throttled{gpu="0",reason="sw_power_cap",RUN}': 1.0,
    "servemark_cpu_utilization_ratio{RUN}": 0.5,
    "servemark_memory_used_bytes{RUN}": 8e9,
}


@contextmanager
def recorded(run_labels: Callable[[], str]) -> Iterator[str]:
    """Expose it on loopback, the machine's metrics as soon as a run has labels; the address, "host:port"."""
    began = time.monotonic()

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            age_s = time.monotonic() - began
            counters = {name: rate * age_s for name, rate in (TRITON_COUNTERS | MACHINE_COUNTERS).items()}
            samples, labels = counters | TRITON_GAUGES | MACHINE_GAUGES, run_labels()
            shown = {
                name.replace("RUN", labels): value for name, value in samples.items() if labels or "RUN" not in name
            }
            text = "".join(f"{name} {value:.6f}\n" for name, value in shown.items())
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
