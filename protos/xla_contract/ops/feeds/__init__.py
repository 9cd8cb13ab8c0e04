"""Rules and wire forms of values exchanged with the host or another program."""
