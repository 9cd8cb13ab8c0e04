"""`make lint`: docstrings and comments that a newcomer cannot read alone."""
