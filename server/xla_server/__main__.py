"""`python -m xla_server` is the console command xla-server."""

from xla_server.app.cli import main

if __name__ == "__main__":
    main()
