"""Records, messages and shared memory that the server and a worker exchange."""
