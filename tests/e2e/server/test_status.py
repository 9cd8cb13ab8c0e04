"""xla-server status and top, against a server that authenticates callers."""

import hashlib
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
from typer.testing import CliRunner

import xla_client as xc
from tests.e2e.process import ServerProcess, start_server
from xla_contract.errors import UnimplementedError
from xla_server.app.calling.credentials import ClientCredentials
from xla_server.app.calling.remote import Remote
from xla_server.app.calling.status import server_state
from xla_server.app.commands import app

TOKENS = {"alice": "admin", "bob": "user"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("server")
    tokens = directory / "tokens"
    tokens.write_text("".join(f"{name} {role} {'T' * 32}{name}\n" for name, role in TOKENS.items()))
    flags = ("--platform", "interpreter", "--devices", "2", "--token-file", str(tokens))
    tls = ("--tls-self-signed", "--state-dir", str(directory / "state"))
    with start_server(directory, *flags, *tls, insecure=False) as running:
        yield running


def fingerprint_of(server: ServerProcess) -> str:
    pem = (server.log.parent / "state" / "tls.crt").read_text()
    return f"sha256:{hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()}"


def call(server: ServerProcess, caller: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {"XLA_CLIENT_TOKEN": f"{'T' * 32}{caller}"} if caller else {}
    certificate = str(server.log.parent / "state" / "tls.crt")
    command = [*arguments, "--target", server.address, "--ca-file", certificate]
    return subprocess.run(
        [sys.executable, "-m", "xla_server", *command],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | environment,
    )


@pytest.mark.parametrize(("wrong", "code"), [("", 0), (f"sha256:{'0' * 64}", 1)])
def test_health_takes_a_fingerprint_and_no_token(
    server: ServerProcess, wrong: str, code: int
) -> None:
    pinned = wrong or fingerprint_of(server)
    command = ["health", "--target", server.address, "--fingerprint", pinned]
    ended = CliRunner().invoke(app, command, env={"XLA_CLIENT_TOKEN": "none of this server"})
    assert ended.exit_code == code, ended.output
    assert ("must have the certificate" in ended.output) == bool(wrong)


def test_an_administrator_sees_all_sessions(server: ServerProcess) -> None:
    certificate = server.log.parent / "state" / "tls.crt"
    credentials = xc.Tls(ca_file=certificate)
    with xc.connect(server.address, token=f"{'T' * 32}bob", credentials=credentials) as client:
        kept = client.to_device(np.ones(1000, np.float32))
        found = json.loads(call(server, "alice", "status", "--json").stdout)
        text = call(server, "alice", "status").stdout
        looks = call(server, "alice", "top", "--count", "2", "--interval", "0.1").stdout
        del kept
    assert found["devices"] == ["interpreter:0", "interpreter:1"]
    [session] = found["described_sessions"]
    assert (session["identity"], session["use"]["device_bytes"]) == ("token:bob", 4000)
    assert session["is_attached"]
    assert "token:bob" in text
    assert "3.9 KiB" in text
    assert looks.count("platform interpreter") == 2


INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("xla_server", run_name="__main__")
"""
"""The command, also where a shell that runs the tests in the background has it ignore Ctrl-C."""


def test_top_goes_on_until_ctrl_c(server: ServerProcess) -> None:
    certificate = str(server.log.parent / "state" / "tls.crt")
    command = ["top", "--target", server.address, "--ca-file", certificate, "--interval", "0.1"]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"XLA_CLIENT_TOKEN": f"{'T' * 32}alice"},
    ) as process:
        assert process.stdout is not None
        looks = 0
        while looks < 3:
            looks += "platform interpreter" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("caller", "words"),
    [
        ("bob", "DescribeServer must be called in the role admin, got token:bob in the role user"),
        ("", "a call must carry credentials, got none (Give --token-file, or --cert-file"),
    ],
)
def test_others_see_nothing(server: ServerProcess, caller: str, words: str) -> None:
    ended = call(server, caller, "status")
    assert ended.returncode == 1
    assert words in ended.stderr
    assert ended.stderr.startswith("xla-server: ")
    assert ended.stderr.count("\n") == 1


def test_a_pinned_certificate_is_the_only_one_that_is_taken(server: ServerProcess) -> None:
    right, wrong = fingerprint_of(server), "sha256:" + "0" * 64
    environment = os.environ | {"XLA_CLIENT_TOKEN": f"{'T' * 32}alice"}
    command = [sys.executable, "-m", "xla_server", "status", "--target", server.address]
    for fingerprint, code in ((right, 0), (wrong, 1)):
        ended = subprocess.run(
            [*command, "--fingerprint", fingerprint],
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
        )
        assert ended.returncode == code, ended.stderr
    assert f"must have the certificate {wrong}, got {right}" in ended.stderr


def test_a_server_without_the_rpc_is_reported(tmp_path: Path) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    target = f"unix:{tmp_path}/socket"
    server.add_insecure_port(target)
    server.start()
    with (
        Remote(target, ClientCredentials(), 30) as remote,
        pytest.raises(UnimplementedError, match="must have the rpc DescribeServer: "),
    ):
        server_state(remote, 1)
    server.stop(None)
