"""The server's end of a worker: its process, runs and transfers, and what its loss means."""
