"""The command `xla-server serve`: credentials, wiring, and the life of the process."""
