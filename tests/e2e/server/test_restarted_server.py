"""A server process that is killed and started again at the address it had."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.fixed_port import free_port
from tests.e2e.process import start_server
from tests.fault.plain import until
from tests.unit.client.small_programs import ONES, double, endless


def test_a_client_goes_on_with_a_server_that_was_killed(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    flags = ("--platform", "interpreter", "--listen", address)
    with start_server(tmp_path, *flags) as server, ThreadPoolExecutor() as threads:
        client = xc.connect(address)
        twice, kept = client.compile(double()), client.to_device(ONES)
        run, large = twice.submit(kept), np.ones(1 << 20, np.float32)
        assert client.to_device(large).to_numpy().size == large.size
        forever = client.compile(endless())
        launched, called = forever.submit(ONES), threads.submit(forever.run, ONES)
        until(lambda: client.describe().use.concurrent_executions == 2)
        server.process.kill()
        for waiting in (launched.future(), called):
            with pytest.raises(xc.UnavailableError) as caught:
                waiting.result()
            assert re.search(
                rf": the connection must last until the answer, got its end: [^;]+; "
                rf"no call is answered at {address} now$",
                str(caught.value),
            )

    def refusal() -> str:
        with pytest.raises(xc.UnavailableError) as caught:
            twice.run(ONES)
        return f"{caught.value} ({caught.value.hint})"

    expected = r"^Run: a server must listen at the target, got no answer: .*: repeat the call"
    until(lambda: re.search(expected, refusal()), 10)
    with start_server(tmp_path, *flags), client:
        # It listens, and grpc's next look is at most a second away.
        while True:
            try:
                np.testing.assert_array_equal(twice.run(ONES), 2 * ONES)
                break
            except xc.UnavailableError:
                continue
        for call in (kept.to_numpy, run.result):
            with pytest.raises(xc.LostError, match=f"the server at {address} was started again"):
                call()
        np.testing.assert_array_equal(client.to_device(large).to_numpy(), large)
