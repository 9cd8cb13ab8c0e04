"""The options of a server: their names, bounds and sources, and the flags of commands."""
