"""The demo: train a classifier of handwritten digits on a server in another process.

Batches stream in through the infeed while loss and accuracy stream out through the outfeed; the
parameters stay on the device until the end. Run it with `make demo`.
"""

import argparse
import pathlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from digits_model import METRICS, batch_shape, classifier, initial_parameters, training_loop
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import xla_client

BATCH, EPOCHS, SEED = 64, 30, 0
STEP_TIMEOUT = 60.0
"""Seconds after which a step that does not come is given up."""


def batches(images: np.ndarray, labels: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Shuffled minibatches of every epoch, the incomplete one at an epoch's end left out."""
    random = np.random.default_rng(SEED)
    for _ in range(EPOCHS):
        order = random.permutation(len(images))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            yield images[chosen], labels[chosen]


def train(
    client: xla_client.Client, images: np.ndarray, labels: np.ndarray
) -> tuple[tuple[xla_client.Buffer, ...], list[float]]:
    """The trained parameters, still on the device, and the loss of every step."""
    steps = EPOCHS * (len(images) // BATCH)
    device = client.device(0)
    execution = client.compile(training_loop(BATCH)).submit(
        np.int32(steps), *initial_parameters(SEED)
    )
    losses: list[float] = []
    columns = (
        TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("loss {task.fields[loss]:.3f}  accuracy {task.fields[accuracy]:.3f}"),
    )  # fmt: skip

    def feed() -> None:
        with device.infeed(batch_shape(BATCH), timeout=STEP_TIMEOUT) as infeed:
            infeed.send(batches(images, labels))

    with ThreadPoolExecutor(1) as feeder, Progress(*columns) as progress:
        fed = feeder.submit(feed)
        task = progress.add_task("training", total=steps, loss=float("nan"), accuracy=float("nan"))
        for loss, accuracy in device.outfeed(METRICS, steps, timeout=STEP_TIMEOUT):
            losses.append(float(loss))
            progress.update(task, advance=1, loss=float(loss), accuracy=float(accuracy))
        fed.result()
    return execution.result(), losses


def draw(
    path: pathlib.Path, losses: list[float], images: np.ndarray, guesses: np.ndarray,
    labels: np.ndarray,
) -> None:  # fmt: skip
    """Write a PNG with the loss curve and some held-out digits with what they were taken for."""
    figure = plt.figure(figsize=(10, 4))
    left, right = figure.subfigures(1, 2)
    axes = left.subplots()
    axes.semilogy(losses, linewidth=0.8)
    axes.set(xlabel="step", ylabel="cross entropy", title="loss")
    for cell, image, guess, label in zip(
        right.subplots(4, 6).flat, images, guesses, labels, strict=False
    ):
        cell.imshow(image.reshape(8, 8), cmap="gray_r")
        cell.set_title(f"{guess}", color="green" if guess == label else "red", fontsize=9)
        cell.axis("off")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Start a server, train, evaluate on held-out images, print and draw the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("digits.png"))
    output = parser.parse_args().output
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    fit_images, test_images, fit_labels, test_labels = train_test_split(
        images, labels, test_size=0.25, random_state=SEED, stratify=labels
    )
    with xla_client.Local() as client:
        print(f"server at {client.target}")
        parameters, losses = train(client, fit_images, fit_labels)
        logits = client.compile(classifier(len(test_images))).run(*parameters, test_images)
    guesses = logits.argmax(axis=1)
    draw(output, losses, test_images, guesses, test_labels)
    print(f"wrote {output}")
    print(f"test accuracy {np.mean(guesses == test_labels):.3f}")


if __name__ == "__main__":
    main()
