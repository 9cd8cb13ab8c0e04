"""Checks and notation of the loop IR that no server needs: its verifier, and its listing."""
