import threading

from xla_server.rpc.threads.pools import Pool, Pools, PoolSizes

SIZES = PoolSizes(short=1, compile=1, execute=2, stream=1)


def test_kinds_of_calls_do_not_wait_for_each_other() -> None:
    pools, gate = Pools(SIZES), threading.Event()
    ended = [threading.Event() for _ in range(3)]

    def work(event: threading.Event) -> None:
        gate.wait(100)
        event.set()

    for event in ended:
        pools.threads[Pool.EXECUTE].submit(work, event)
    done = threading.Event()
    pools.threads[Pool.SHORT].submit(done.set)
    assert done.wait(100)
    assert not any(event.is_set() for event in ended)
    gate.set()
    assert all(event.wait(100) for event in ended)
    assert pools.close(10)


def test_closing_drops_what_is_in_line_and_names_threads_that_do_not_end() -> None:
    pools, gate, begun = Pools(SIZES), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait(100)

    ended: list[str] = []
    for name in ("running", "waiting"):
        job = pools.threads[Pool.COMPILE].submit(work)
        job.add_done_callback(lambda _, name=name: ended.append(name))
    assert begun.wait(100)
    assert not pools.close(0.05)
    assert ended == ["waiting"]
    # The threads of another server are none of this one's.
    assert Pools(SIZES).close(5)
    gate.set()
    assert pools.close(10)
    assert ended == ["waiting", "running"]
