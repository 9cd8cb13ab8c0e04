"""The command `xla-server compile`: a program from a file, compiled and run."""
