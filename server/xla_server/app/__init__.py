"""The commands of `xla-server` and `xla-run`: options, wiring, start and end of a server.

`options/settings.py` declares each option once. `cli.py` imports Python's own modules only, so that
an installation of the client alone can report what is missing; `commands.py` loads what a command
needs when it is called, and help loads no option of `serve`. `serving/lifecycle.py` is the life of
a server process: it prints the ready line, loads the platform in a thread while the port is open,
drains on SIGTERM and ends. `serving/wiring.py` puts a server together; `platforms.py` alone names
the classes of platforms. `serving/access.py` turns options into credentials. Imports before the
port is open load neither numba nor scipy; `tests/unit/app/serving/test_start_up.py` counts modules.
"""
