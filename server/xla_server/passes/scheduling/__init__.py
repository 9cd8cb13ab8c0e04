"""Scheduling of instructions so that updates of arrays need no copies."""
