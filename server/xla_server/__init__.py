"""The server: calls, sessions, and the compilers and interpreter that run programs.

ARCHITECTURE.md draws its packages as layers, each of which imports those below it.
"""
