"""The context of a run or a compilation: cancellation, feeds, channels, memory, random states."""
