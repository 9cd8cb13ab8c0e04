"""Random numbers. Semantics: XLA's RngUniform and RngNormal."""

from xla_client.builder import Op
from xla_contract.opcode import Opcode
from xla_contract.ops.rng import RandomDistribution, RngAttributes
from xla_contract.shape import Shape


def rng_uniform(a: Op, b: Op, shape: Shape) -> Op:
    """Numbers spread evenly over [a, b), both scalars of the result's type."""
    return _rng(RandomDistribution.UNIFORM, a, b, shape)


def rng_normal(mu: Op, sigma: Op, shape: Shape) -> Op:
    """Normal numbers of this mean and deviation, both scalars of the result's type."""
    return _rng(RandomDistribution.NORMAL, mu, sigma, shape)


def _rng(distribution: RandomDistribution, a: Op, b: Op, shape: Shape) -> Op:
    attributes = RngAttributes(distribution, shape.without_layout())
    return a.builder.instruction(Opcode.RNG, [a, b], attributes)
