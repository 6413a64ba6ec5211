"""The KServe v2 protocol over HTTP and gRPC: inference, control plane, statistics. Imports no load and no run."""
