"""The context of a run, and of a compilation: cancellation, feeds, channels, memory checks, random states."""
