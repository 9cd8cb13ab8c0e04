"""Loops for operations whose scalar computation no kernel can hold."""
