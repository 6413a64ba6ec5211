"""What can be asked: a server over HTTP, gRPC or shared memory, or an engine in this process."""
