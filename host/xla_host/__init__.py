"""The process's own memory, sockets and environment, for server and client; nothing of XLA."""
