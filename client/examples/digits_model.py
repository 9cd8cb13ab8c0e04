"""A two-layer classifier of 8x8 digits and its training loop, written with the builder.

The loop is one computation: a While whose body takes a minibatch from the infeed, computes loss,
accuracy and the gradient (by hand, below), updates the parameters with momentum and sends the
two figures to the outfeed. Parameters never leave the device while it runs.
"""

from collections.abc import Callable

import numpy as np

from xla_client import Builder, Computation, ElementType, Op, Shape, ops

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


def scalar_function(name: str, function: Callable[[Op, Op], Op]) -> Computation:
    """The reducer `(f32[], f32[]) -> f32[]` of a binary operation."""
    builder = Builder(name)
    scalar = Shape.scalar(ElementType.F32)
    return builder.build(function(builder.parameter(0, scalar), builder.parameter(1, scalar)))


ADD = scalar_function("add", ops.add)
MAX = scalar_function("max", ops.max)


def total(operand: Op, dimensions: tuple[int, ...]) -> Op:
    """The sum over these dimensions."""
    return ops.reduce(operand, operand.builder.constant(np.float32(0)), ADD, dimensions)


def zeros_like(operand: Op) -> Op:
    """Zeros of the operand's shape."""
    zero = operand.builder.constant(np.zeros((), operand.shape.element_type.dtype))
    return ops.broadcast(zero, operand.shape.dimensions)


def forward(parameters: list[Op], images: Op) -> tuple[Op, Op]:
    """Hidden activations f32[n,128] and logits f32[n,10] of images f32[n,64]."""
    w1, b1, w2, b2 = parameters
    zero = images.builder.constant(np.float32(0))
    hidden = ops.max(ops.add(ops.dot(images, w1), b1, broadcast_dimensions=(1,)), zero)
    return hidden, ops.add(ops.dot(hidden, w2), b2, broadcast_dimensions=(1,))


def log_softmax(logits: Op) -> Op:
    """`logits` less the logarithm of the sum of exponentials of each row."""
    lowest = logits.builder.constant(np.float32(-np.inf))
    shifted = ops.sub(logits, ops.reduce(logits, lowest, MAX, (1,)), broadcast_dimensions=(0,))
    return ops.sub(shifted, ops.log(total(ops.exp(shifted), (1,))), broadcast_dimensions=(0,))


def one_hot(labels: Op) -> Op:
    """f32[n,10] with a one in the column that each of labels s32[n] names."""
    (count,) = labels.shape.dimensions
    columns = labels.builder.iota(Shape.array(ElementType.S32, (count, CLASSES)), 1)
    rows = ops.broadcast_in_dim(labels, (count, CLASSES), (0,))
    return ops.convert_element_type(ops.eq(columns, rows), ElementType.F32)


def hits(logits: Op, target: Op) -> Op:
    """The share of rows whose largest logit stands in the target's column, f32[]."""
    lowest = logits.builder.constant(np.float32(-np.inf))
    best = ops.reduce(logits, lowest, MAX, (1,))
    chosen = total(ops.mul(logits, target), (1,))
    right = ops.convert_element_type(ops.ge(chosen, best), ElementType.F32)
    return total(right, (0,)) / float(logits.shape.dimensions[0])


def gradients(parameters: list[Op], images: Op, labels: Op) -> tuple[list[Op], Op, Op]:
    """The gradient of the mean cross entropy for each parameter, the loss and the accuracy."""
    count = float(images.shape.dimensions[0])
    hidden, logits = forward(parameters, images)
    log_probability, target = log_softmax(logits), one_hot(labels)
    loss = -total(ops.mul(log_probability, target), (0, 1)) / count

    d_logits = (ops.exp(log_probability) - target) / count
    d_hidden = ops.select(
        ops.gt(hidden, zeros_like(hidden)),
        ops.dot(d_logits, ops.transpose(parameters[2], (1, 0))),
        zeros_like(hidden),
    )
    gradient = [
        ops.dot(ops.transpose(images, (1, 0)), d_hidden),
        total(d_hidden, (0,)),
        ops.dot(ops.transpose(hidden, (1, 0)), d_logits),
        total(d_logits, (0,)),
    ]
    return gradient, loss, hits(logits, target)


def training_loop(batch: int) -> Computation:
    """`(steps, w1, b1, w2, b2) -> (w1, b1, w2, b2)`, fed and watched while it runs."""
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
