import inspect

import pytest

from xla_server.app.options.settings import Settings, described
from xla_server.app.serving.serve import serve


def test_every_setting_is_a_flag():
    flags = set(inspect.signature(serve).parameters) - {"config"}
    assert flags == set(Settings.model_fields)


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("listen", "separate them by commas; by default 127.0.0.1:1685"),
        ("platform", "runs the programs; by default cpu"),
        ("short_threads", "short calls; by default 16"),
        ("grace_seconds", "to end after SIGTERM; by default 30"),
        ("session_device_bytes", "its connection's share of max-device-bytes; by default 0"),
        ("prepare", "the server is ready; by default yes"),
        # An empty default is a matter of the description.
        ("max_device_bytes", "; by default 1/2 of the memory"),
        ("dump_dir", "empty: requests are refused"),
        ("custom_calls", "separated by commas"),
    ],
)
def test_help_says_the_default_of_every_option(name: str, end: str):
    [option] = inspect.signature(serve).parameters[name].annotation.__metadata__
    assert option.help == described(name)
    assert option.help.endswith(end)
