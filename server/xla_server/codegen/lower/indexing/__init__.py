"""Lowering of scatters, sorts and topk."""
