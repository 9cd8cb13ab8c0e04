"""The command xla-server serve: the options of a server as flags."""

import gc
import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from xla_contract.errors import ResourceExhaustedError
from xla_server.app.endings import (
    EXIT_FAILED,
    EXIT_USAGE,
    ConfigurationError,
    ending,
    fail,
    one_line,
)
from xla_server.app.options.flags import flag, with_flags
from xla_server.app.options.settings import (
    CONFIG_VARIABLE,
    Settings,
    described,
    load_settings,
    notation,
)
from xla_server.app.serving.logs import configure_logs


def _flag_of(name: str) -> inspect.Parameter:
    """Return the flag for a field of Settings; its None leaves the option to the next source."""
    # Settings reads all values but these, so that wrong ones have the same sentences everywhere.
    kinds: dict[Any, Any] = {bool: bool, tuple[str, ...]: list[str] if name == "listen" else str}
    kind = kinds.get(Settings.model_fields[name].annotation, str)
    return flag(name, kind, described(name), None if kind is bool else notation(name))


@with_flags(map(_flag_of, Settings.model_fields))
def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with any of these options", envvar=CONFIG_VARIABLE, show_default=False
        ),
    ] = None,
    **flags: Any,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain and exit 0.

    Options come from flags, else the environment, else the TOML file, else defaults: --feed-items
    is XLA_SERVER_FEED_ITEMS in the environment and feed_items in the file. A SIZE is a number of
    bytes, or one with KiB, MiB, GiB, TiB (1024) or kB, MB, GB, TB (1000): 4GiB, 1.5GB.
    """
    # Collecting garbage takes much of the time in which modules are loaded.
    gc.disable()
    with ending():
        settings = load_settings(flags | {"listen": flags["listen"] or None}, config)
    # These modules load most of the server; a wrong option is reported before they are loaded.
    from xla_server.app.serving.lifecycle import PlatformError, run_until_signalled
    from xla_server.rpc.listeners import CannotListenError

    configure_logs(settings.log_level)
    try:
        run_until_signalled(settings)
    except ConfigurationError as error:
        fail(str(error), EXIT_USAGE)
    except (CannotListenError, PlatformError) as error:
        fail(str(error), EXIT_FAILED)
    except ResourceExhaustedError as error:
        # Such as a limit of threads.
        fail(one_line(error), EXIT_FAILED)
