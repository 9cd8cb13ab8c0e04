"""Results of a pipeline's steps, to be used before the pipeline runs."""

import dataclasses
from collections.abc import Iterator

from xla_client.coercion.parameters import parameter_class
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.shape import Shape


@parameter_class
@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class StepResult:
    """Future result of a step of a pipeline, or an element of it: `loss, weights = p.call(...)`.

    It may be an argument of later steps, of `Pipeline.keep` and of `Pipeline.fetch`. A tuple has a
    length, elements by number, and can be unpacked.
    """

    _pipeline_id: object
    step: int
    """The number of the step, from 0."""
    shape: Shape
    """The shape, with the layout in which the program gives it."""
    index: tuple[int, ...] = ()
    """The path of element numbers from the step's result to this value."""

    def require_of(self, pipeline_id: object) -> None:
        """Raise InvalidArgumentError unless it is of the pipeline with this identity."""
        if self._pipeline_id is not pipeline_id:
            raise InvalidArgumentError(
                f"the result of a step can be used in its own pipeline only, got {self!r} elsewhere"
            )

    def require_fit(self, parameter: Shape) -> None:
        """Raise InvalidArgumentError unless it has a parameter's type and dimensions."""
        if not self.shape.compatible(parameter):
            raise InvalidArgumentError(
                "the result of a step must have the type and dimensions of its parameter, got "
                f"{self.shape} for {parameter}"
            )

    def __len__(self) -> int:
        return len(self._parts())

    def __getitem__(self, number: int) -> "StepResult":
        parts = self._parts()
        number = range(len(parts))[number]
        return StepResult(self._pipeline_id, self.step, parts[number], (*self.index, number))

    def __iter__(self) -> Iterator["StepResult"]:
        return (self[number] for number in range(len(self._parts())))

    def __repr__(self) -> str:
        path = "".join(f"[{number}]" for number in self.index)
        return f"StepResult({self.shape} of step {self.step}{path})"

    def _parts(self) -> tuple[Shape, ...]:
        if not self.shape.is_tuple:
            raise TypeError(f"only a tuple has elements, got {self.shape}")
        return self.shape.tuple_shapes
