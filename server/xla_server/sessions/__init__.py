"""What the server remembers between calls, and what each call does with it."""
