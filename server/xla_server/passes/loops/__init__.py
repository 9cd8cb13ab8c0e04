"""Analysis of while loops, passes that shrink or remove them, builders of counted loops."""
