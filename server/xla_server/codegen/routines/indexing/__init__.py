"""Sorts and heaps in scratch memory."""
