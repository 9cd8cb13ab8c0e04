"""Connections to the unix socket of a server's shared memory."""

import contextlib
import os
import socket
import struct

GREETING_SECONDS = 2.0
"""Timeout of the server's answer, in seconds."""

_CREDENTIALS = struct.Struct("3i")


def greet(path: str, greeting: str) -> socket.socket:
    """A connection on which the greeting was sent, with GREETING_SECONDS as its timeout.

    Raises OSError if there is no server, or one of another user's, which gets no token.
    """
    with contextlib.ExitStack() as undo:
        connection = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        connection.settimeout(GREETING_SECONDS)
        connection.connect(path)
        _, user, _ = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if user != os.geteuid():  # The token is for the server alone.
            raise OSError(f"the socket is of user {user}")
        connection.sendall(f"{greeting}\n".encode("ascii"))
        undo.pop_all()
    return connection
