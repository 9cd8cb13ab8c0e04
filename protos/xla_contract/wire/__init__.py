"""Wire forms of the types: varints, checksums, chunks, and the messages of shapes and numbers."""
