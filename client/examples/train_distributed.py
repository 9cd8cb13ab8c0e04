"""The demo of many devices: train the classifier of digits on one device, and on four at once.

Each of four replicas takes a quarter of every minibatch from its own infeed, and AllReduce averages
their gradients, so the losses are those of one device but for rounding. Where MPI is installed (the
extra `mpi`), two processes with two devices each do it, too, with the same losses as one with four.
Run it with `make demo-distributed`.
"""

import argparse
import contextlib
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from digits_model import METRICS, batch_shape, initial_parameters, training_loop
from sklearn.datasets import load_digits

import xla_client

BATCH, SEED, DEVICES = 64, 0, 4
STEP_TIMEOUT = 60.0
"""Seconds after which a step that does not come is given up."""


def train(
    client: xla_client.Client, replicas: int, images: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """The loss of every step, f32[replicas,steps], with a part of each minibatch per replica.

    Minibatches are images f32[steps,64,64] and labels s32[steps,64].
    """
    part = BATCH // replicas
    mesh = client.mesh((replicas,), ("data",), replicas=replicas)
    loop = client.compile(training_loop(part, replicas), mesh=mesh)
    steps = len(images)

    def feed(replica: int) -> None:
        own = slice(replica * part, (replica + 1) * part)
        device = client.device(mesh.ordinals[replica])
        with device.infeed(batch_shape(part), timeout=STEP_TIMEOUT) as infeed:
            infeed.send(zip(images[:, own], labels[:, own], strict=True))

    def watch(replica: int) -> list[float]:
        device = client.device(mesh.ordinals[replica])
        figures = device.outfeed(METRICS, steps, timeout=STEP_TIMEOUT)
        return [float(loss) for loss, _ in figures]

    with ThreadPoolExecutor(2 * replicas + 1) as threads:
        ran = threads.submit(loop.execute_sharded, np.int32(steps), *initial_parameters(SEED))
        fed = [threads.submit(feed, replica) for replica in range(replicas)]
        losses = [threads.submit(watch, replica) for replica in range(replicas)]
        for each in (ran, *fed):
            each.result()
        return np.array([each.result() for each in losses])


def mpirun() -> str | None:
    """The program that starts processes joined by MPI, if it and MPI for Python are installed."""
    if importlib.util.find_spec("mpi4py") is None:
        return None
    beside = shutil.which("mpirun", path=str(Path(sys.executable).parent))
    return beside or shutil.which("mpirun")


@contextlib.contextmanager
def server_of_processes(mpirun: str, count: int, platform: str) -> Iterator[xla_client.Client]:
    """A client of a server in `count` processes on this machine, with DEVICES in all."""
    command = [mpirun, "--allow-run-as-root", "--with-ft", "ulfm", "--oversubscribe"]
    command += ["--bind-to", "none", "-n", str(count), sys.executable, "-m", "xla_server", "serve"]
    command += ["--distributed", "mpi", "--devices", str(DEVICES // count), "--platform", platform]
    command += ["--listen", "127.0.0.1:0", "--insecure", "--log-level", "error"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        with xla_client.connect(json.loads(process.stdout.readline())["listening"]) as client:
            yield client
    finally:
        process.terminate()
        process.communicate()


def main() -> None:
    """Train on one device, four, and in two processes; print the losses and how they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--platform", default="cpu")
    options = parser.parse_args()
    digits = load_digits()
    chosen = np.random.default_rng(SEED).integers(len(digits.data), size=(options.steps, BATCH))
    images = (digits.data[chosen] / 16).astype(np.float32)
    labels = digits.target[chosen].astype(np.int32)
    with xla_client.Local(devices=DEVICES, platform=options.platform) as client:
        alone = train(client, 1, images, labels)
        together = train(client, DEVICES, images, labels)
    columns = {"1 device": alone, f"{DEVICES} devices": together}
    if (starter := mpirun()) is not None:
        with server_of_processes(starter, 2, options.platform) as client:
            columns[f"2 x {DEVICES // 2}"] = across = train(client, DEVICES, images, labels)
    print(f"{'step':>6}" + "".join(f"{name:>12}" for name in columns))
    for step in range(0, options.steps, -(-options.steps // 16)):
        print(f"{step:>6}" + "".join(f"{losses[0, step]:>12.5f}" for losses in columns.values()))
    print(f"replicas agree: {bool((together == together[0]).all())}")
    if starter is not None:
        print(f"processes agree: {bool((across == together).all())}")
    print(f"largest difference of losses: {np.abs(together - alone).max():.2g}")


if __name__ == "__main__":
    main()
