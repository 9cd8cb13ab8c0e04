"""Wire forms of values: messages, linear streams, feed items, and the memory a parse takes."""
