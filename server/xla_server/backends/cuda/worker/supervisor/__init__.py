"""The server's end of a worker: its process, runs and transfers, and the errors after its loss."""
