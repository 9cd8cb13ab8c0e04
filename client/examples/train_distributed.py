"""The demo of many devices: train the classifier of digits on one device, and on four at once.

Each of four replicas takes a quarter of every minibatch from its own infeed, and AllReduce averages
their gradients, so the losses are those of one device but for rounding. Run it with `make
demo-distributed`.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor

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


def main() -> None:
    """Train twice, print both curves of losses and the largest difference between them."""
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
    print(f"{'step':>6}{'1 device':>12}{f'{DEVICES} devices':>12}")
    for step in range(0, options.steps, -(-options.steps // 16)):
        print(f"{step:>6}{alone[0, step]:>12.5f}{together[0, step]:>12.5f}")
    print(f"replicas agree: {bool((together == together[0]).all())}")
    print(f"largest difference of losses: {np.abs(together - alone).max():.2g}")


if __name__ == "__main__":
    main()
