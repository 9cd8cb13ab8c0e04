"""A session on a server: its handles, the buffers on its devices, and what it reports of them.

A session that is gone is replaced, and `public_methods` makes the call again.
"""
