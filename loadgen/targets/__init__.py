"""What can be asked: a server over HTTP, gRPC or shared memory, or engines in this process. Imports no measurement."""
