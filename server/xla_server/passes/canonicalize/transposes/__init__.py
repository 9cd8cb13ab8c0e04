"""Transposes that are folded into their readers, or moved to where they cancel."""
