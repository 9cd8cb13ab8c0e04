"""Passes that split, merge or replace reductions."""
