"""Calls of a server from the command line."""
