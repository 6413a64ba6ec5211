"""Bytes to a server and back: sockets, TLS, HTTP/2 and access rights. Knows no protocol of inference, and no run."""
