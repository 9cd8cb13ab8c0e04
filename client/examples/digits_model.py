"""A two-layer classifier of 8x8 digits and its training loop, written with the builder.

The loop is one computation: a While whose body takes a minibatch from the infeed, computes loss,
accuracy and the gradient (by hand, below), updates the parameters with momentum and sends the
two figures to the outfeed. Parameters never leave the device while it runs.
"""

import numpy as np

from xla_client import Builder, Computation, ElementType, Op, Shape, ops
from xla_client.lib import arithmetic, matrix
from xla_client.lib.activations import log_softmax, one_hot, relu
from xla_client.lib.constants import zeros_like

PIXELS, HIDDEN, CLASSES = 64, 128, 10
LEARNING_RATE, MOMENTUM = 0.1, 0.9

PARAMETERS = (
    Shape.array(ElementType.F32, (PIXELS, HIDDEN)),
    Shape.array(ElementType.F32, (HIDDEN,)),
    Shape.array(ElementType.F32, (HIDDEN, CLASSES)),
    Shape.array(ElementType.F32, (CLASSES,)),
)
METRICS = Shape.tuple_of([Shape.scalar(ElementType.F32), Shape.scalar(ElementType.F32)])
COUNTER = Shape.scalar(ElementType.S32)


def initial_parameters(seed: int) -> list[np.ndarray]:
    """Weights scaled to the fan-in, biases zero; shapes as in PARAMETERS."""
    random = np.random.default_rng(seed)
    return [
        (random.standard_normal(shape.dimensions) / np.sqrt(shape.dimensions[0])).astype(np.float32)
        if shape.rank == 2
        else np.zeros(shape.dimensions, np.float32)
        for shape in PARAMETERS
    ]


def batch_shape(batch: int) -> Shape:
    """One item of the infeed: images f32[batch,64] and labels s32[batch]."""
    return Shape.tuple_of(
        [
            Shape.array(ElementType.F32, (batch, PIXELS)),
            Shape.array(ElementType.S32, (batch,)),
        ]
    )


def forward(parameters: list[Op], images: Op) -> tuple[Op, Op]:
    """Hidden activations f32[n,128] and logits f32[n,10] of images f32[n,64]."""
    w1, b1, w2, b2 = parameters
    hidden = relu(ops.add(ops.dot(images, w1), b1, broadcast_dimensions=(1,)))
    return hidden, ops.add(ops.dot(hidden, w2), b2, broadcast_dimensions=(1,))


def hits(logits: Op, target: Op) -> Op:
    """The share of rows whose largest logit stands in the target's column, f32[]."""
    chosen = arithmetic.sum(ops.mul(logits, target), (1,))
    right = ops.ge(chosen, arithmetic.max(logits, (1,)))
    return arithmetic.mean(ops.convert_element_type(right, ElementType.F32))


def gradients(parameters: list[Op], images: Op, labels: Op) -> tuple[list[Op], Op, Op]:
    """The gradient of the mean cross entropy for each parameter, the loss and the accuracy."""
    count = float(images.shape.dimensions[0])
    hidden, logits = forward(parameters, images)
    log_probability, target = log_softmax(logits), one_hot(labels, CLASSES)
    loss = -arithmetic.sum(ops.mul(log_probability, target)) / count

    d_logits = (ops.exp(log_probability) - target) / count
    d_hidden = ops.select(
        ops.gt(hidden, zeros_like(hidden)),
        ops.dot(d_logits, matrix.transpose_in_minor_dims(parameters[2])),
        zeros_like(hidden),
    )
    gradient = [
        ops.dot(matrix.transpose_in_minor_dims(images), d_hidden),
        arithmetic.sum(d_hidden, (0,)),
        ops.dot(matrix.transpose_in_minor_dims(hidden), d_logits),
        arithmetic.sum(d_logits, (0,)),
    ]
    return gradient, loss, hits(logits, target)


def averaged(values: list[Op], replicas: int) -> list[Op]:
    """The mean of each value over the replicas of the program, which is the same on all."""
    if replicas == 1:
        return values
    sums = ops.all_reduce_tuple(values, ops.add)
    return [ops.get_tuple_element(sums, i) / float(replicas) for i in range(len(values))]


def training_loop(batch: int, replicas: int = 1) -> Computation:
    """`(steps, w1, b1, w2, b2) -> (w1, b1, w2, b2)`, fed and watched while it runs.

    Each of several replicas is fed `batch` images a step; they agree on gradients and figures.
    """
    state = Shape.tuple_of([COUNTER, *PARAMETERS, *PARAMETERS, Shape.token()])

    condition = Builder("steps_left")
    before = condition.parameter(0, state)
    left = ops.get_tuple_element(before, 0)
    more = condition.build(ops.gt(left, zeros_like(left)))

    body = Builder("step")
    before = body.parameter(0, state)
    left, *values, token = (ops.get_tuple_element(before, i) for i in range(10))
    weights, velocities = values[:4], values[4:]
    fed = ops.infeed_with_token(token, batch_shape(batch))
    images, labels = (ops.get_tuple_element(ops.get_tuple_element(fed, 0), i) for i in (0, 1))
    gradient, loss, accuracy = gradients(weights, images, labels)
    *gradient, loss, accuracy = averaged([*gradient, loss, accuracy], replicas)
    velocities = [v * MOMENTUM + g for v, g in zip(velocities, gradient, strict=True)]
    weights = [w - v * LEARNING_RATE for w, v in zip(weights, velocities, strict=True)]
    token = ops.outfeed_with_token(
        ops.tuple([loss, accuracy]), ops.get_tuple_element(fed, 1), METRICS
    )
    step = body.build(ops.tuple([left - 1, *weights, *velocities, token]))

    main = Builder("train_digits")
    steps = main.parameter(0, COUNTER, "steps")
    start = [main.parameter(i + 1, shape, f"p{i}") for i, shape in enumerate(PARAMETERS)]
    still = [zeros_like(parameter) for parameter in start]
    end = ops.while_(more, step, ops.tuple([steps, *start, *still, main.create_token()]))
    return main.build(ops.tuple([ops.get_tuple_element(end, i + 1) for i in range(4)]))


def classifier(count: int) -> Computation:
    """`(w1, b1, w2, b2, images f32[count,64]) -> logits f32[count,10]`."""
    builder = Builder("classify")
    parameters = [builder.parameter(i, shape) for i, shape in enumerate(PARAMETERS)]
    images = builder.parameter(4, Shape.array(ElementType.F32, (count, PIXELS)), "images")
    return builder.build(forward(parameters, images)[1])
