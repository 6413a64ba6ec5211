"""The KServe v2 protocol over HTTP and gRPC: inference, control plane, statistics. Knows no run."""
