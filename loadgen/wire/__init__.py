"""A request's way to a KServe v2 server and back: sockets, TLS, HTTP, HTTP/2, gRPC; and the server's control plane."""
