"""The life of a server process, as far as it can be seen from inside."""

import subprocess
import sys

_TEXT = """
import gc, os, signal
from xla_server.app.serving import lifecycle as run
from xla_server.app.options.settings import Settings

def announced(server, settings):
    assert gc.get_freeze_count() > 10_000
    os.kill(os.getpid(), signal.SIGTERM)

run._announce = announced
run.run_until_signalled(Settings(platform="interpreter", listen="127.0.0.1:0"))
print("gone")
"""


def test_what_is_loaded_at_the_start_is_no_work_for_the_collector() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _TEXT], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout == "gone\n"
