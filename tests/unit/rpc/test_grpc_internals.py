"""Recognition of a grpc whose private interfaces are not the known ones."""

import importlib
from typing import Any

from xla_server.rpc.grpc_internals import known_server


def test_another_grpc_is_known_as_such(monkeypatch):
    server = importlib.import_module("grpc._server")
    assert known_server() is server
    with monkeypatch.context() as patch:
        patch.setattr(server, "_abort", lambda state, call, code: None)
        assert known_server() is None
    with monkeypatch.context() as patch:
        patch.delattr(server, "_RECEIVE_MESSAGE_TOKEN")
        assert known_server() is None
    with monkeypatch.context() as patch:

        def renamed(self: Any, rpc_event: object, state: object, request_deserializer: object):
            self._call_state = state

        patch.setattr(server._Context, "__init__", renamed)
        assert known_server() is None
    observability = importlib.import_module("grpc._observability")
    with monkeypatch.context() as patch:
        patch.setattr(observability, "_OBSERVABILITY_PLUGIN", object())
        assert known_server() is None
    assert known_server() is server
