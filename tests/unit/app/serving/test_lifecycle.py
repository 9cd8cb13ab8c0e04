"""The life of a server process, as far as it can be seen from inside."""

import subprocess
import sys
from pathlib import Path

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


_RECORDED = """
import contextlib, os, pathlib, signal, sys
from xla_server.app.cli import main
from xla_server.app.endings import ConfigurationError
from xla_server.app.options.settings import Settings
from xla_server.app.platforms import create_backend
from xla_server.app.serving import lifecycle
from xla_server.app.serving.distribution import joined_world

read = set()
plain = Settings.__getattribute__

def recorded(self, name):
    read.add(name)
    return plain(self, name)

Settings.__getattribute__ = recorded
lifecycle._announce = lambda *_: os.kill(os.getpid(), signal.SIGTERM)
secret = pathlib.Path("secret")
secret.write_text("s" * 32)
secret.chmod(0o600)
sys.argv = ["xla-server", "serve", "--platform", "interpreter", "--listen", "127.0.0.1:0"]
sys.argv += ["--jwt-secret-file", "secret", "--tls-self-signed", "--state-dir", "."]
with contextlib.suppress(SystemExit):
    main()
for platform in ("cpu", "cuda"):
    # There may be no GPU.
    with contextlib.suppress(ConfigurationError):
        create_backend(Settings(platform=platform, compilation_cache_dir=""))
with contextlib.suppress(ConfigurationError):
    joined_world(Settings(distributed="mpi"))
print(sorted(set(Settings.model_fields) - read))
"""


def test_there_is_no_option_that_nothing_reads(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _RECORDED]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert ended.stdout == "[]\n", ended.stderr
