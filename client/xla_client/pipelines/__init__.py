"""Pipelines: several runs in one message, or one call each where a server has no Run."""
