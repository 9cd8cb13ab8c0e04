"""Devices of a session with their infeed and outfeed queues, streams on these, and channels.

A queue knows its waiters as callbacks, so that neither a program nor an rpc holds a thread for it.
"""
