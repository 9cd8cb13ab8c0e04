"""The process's own memory and sockets, for server and client; nothing of XLA."""
