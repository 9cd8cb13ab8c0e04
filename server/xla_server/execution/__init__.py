"""The context of a run: cancellation, feeds, channels, memory checks, random states."""
