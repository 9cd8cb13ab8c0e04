"""The launch of a kernel's parallel loop: work items, chunks, and polls for cancellation."""
