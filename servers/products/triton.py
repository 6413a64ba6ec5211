"""NVIDIA Triton, with servemark's backend for ONNX Runtime; `servers.open_server` starts it."""

from servers.products import About

ABOUT = About(
    package="nvidia-pytriton",
    guide="https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/batcher.html",
    batching="dynamic_batching: takes what waits when an instance falls idle",
    instances="instance_group",
    ready="/v2/models/{model}/ready",
    tried="the tests of each commit",
    grpc=True,
    binary_tensors=True,
)
