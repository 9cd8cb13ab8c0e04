"""The other targets that every server has: top-k, markers, random states, empty arrays."""
