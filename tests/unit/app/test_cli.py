import inspect
import io
import json
import logging

from xla_server.app.cli import serve
from xla_server.app.config import Settings
from xla_server.app.logs import JsonFormatter


def test_every_setting_is_a_flag():
    flags = set(inspect.signature(serve).parameters) - {"config"}
    assert flags == set(Settings.model_fields)


def test_a_log_line_is_one_json_object():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.Logger("test")
    logger.addHandler(handler)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logger.exception("incident %s", "ab", extra={"rpc": "Execute"})
    entry = json.loads(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert (entry["message"], entry["level"], entry["rpc"]) == ("incident ab", "error", "Execute")
    assert "ValueError: two\nlines" in entry["exception"]
