"""Modules made small, or to one instruction, that still show a difference."""
