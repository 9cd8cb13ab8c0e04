import os
import socket
import stat
import tempfile

import pytest

from xla_server.rpc.listeners import CannotListenError, Listeners, socket_path


@pytest.fixture
def directory():
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        yield made


class Binding:
    """Binds as grpc does, which removes a socket it finds."""

    def __init__(self):
        self.sockets = []

    def __call__(self, address):
        path = socket_path(address)
        if not path:
            if address.startswith("nowhere"):
                raise RuntimeError
            return 4711
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sockets.append(bound)
        try:
            bound.bind(path)
        except OSError:
            raise RuntimeError from None
        bound.listen()
        return 1

    def close(self):
        for each in self.sockets:
            each.close()


@pytest.fixture
def bind():
    binding = Binding()
    yield binding
    binding.close()


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("unix:/a/b", "/a/b"),
        ("unix:///a/b", "/a/b"),
        ("unix:a", "a"),
        ("unix-abstract:a", ""),
        ("localhost:1", ""),
    ],
)
def test_addresses_of_sockets_have_a_path(address, path):
    assert socket_path(address) == path


def test_all_addresses_are_bound_and_sockets_are_private_and_removed(directory, bind):
    path = f"{directory}/socket"
    mask = os.umask(0)
    try:
        listeners = Listeners(["127.0.0.1:0", f"unix:{path}", "[::1]:0"], bind)
        assert os.umask(0) == 0
    finally:
        os.umask(mask)
    assert listeners.addresses == ["127.0.0.1:4711", f"unix:{path}", "[::1]:4711"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    listeners.close()
    listeners.close()
    assert not os.listdir(directory)


def test_a_socket_of_another_that_replaced_it_is_left(directory, bind):
    path = f"{directory}/socket"
    listeners = Listeners([f"unix:{path}"], bind)
    os.rename(path, f"{path}.before")
    bind(f"unix:{path}")
    listeners.close()
    assert os.path.exists(path)


def test_a_dead_socket_is_replaced_and_a_live_one_is_not(directory, bind):
    path = f"{directory}/socket"
    Listeners([f"unix:{path}"], bind)
    with pytest.raises(CannotListenError, match=f"unix:{path}: Address already in use"):
        Listeners([f"unix:{path}"], bind)
    assert os.path.exists(path)
    bind.close()
    Listeners([f"unix:{path}"], bind)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(path)


def test_what_is_no_socket_is_never_removed(directory, bind):
    path = f"{directory}/file"
    with open(path, "w") as file:
        file.write("data")
    with pytest.raises(CannotListenError, match="must be a socket, got a file of mode -r"):
        Listeners([f"unix:{path}"], bind)
    with open(path) as file:
        assert file.read() == "data"


def test_one_that_cannot_be_bound_leaves_nothing_behind(directory, bind):
    for wrong in ("nowhere:1", f"unix:{directory}/none/socket"):
        with pytest.raises(CannotListenError, match=wrong):
            Listeners([f"unix:{directory}/socket", wrong], bind)
        assert not os.listdir(directory)


def test_a_path_that_leads_nowhere_is_reported(directory, bind):
    with open(f"{directory}/file", "w"):
        pass
    with pytest.raises(CannotListenError, match=r"file/socket: Not a directory$"):
        Listeners([f"unix:{directory}/file/socket"], bind)


def test_a_socket_that_cannot_be_asked_is_somebody_s(directory, bind):
    path = f"{directory}/socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(path)
        with pytest.raises(CannotListenError, match=f"cannot listen on unix:{path}: .*wrong type"):
            Listeners([f"unix:{path}"], bind)
    assert os.path.exists(path)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("nowhere:0", "Name or service not known|Temporary failure|No address"),
        ("127.0.0.1:0", "the address cannot be bound"),
        ("127.0.0.1:x", "invalid literal"),
        ("unix-abstract:x", "the socket cannot be made"),
    ],
)
def test_why_an_address_cannot_be_bound_is_asked_of_the_system(address, reason):
    def refuse(_):
        raise RuntimeError

    with pytest.raises(CannotListenError, match=f"^cannot listen on {address}: .*({reason})"):
        Listeners([address], refuse)


def test_an_address_in_use_is_reported(bind):
    def refuse(_):
        raise RuntimeError

    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(CannotListenError, match=f"{address}: Address already in use"):
            Listeners([address], refuse)
