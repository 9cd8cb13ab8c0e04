"""all-to-all: part j of member i becomes part i of member j, in blocks or whole operands."""

from xla_server.ops.collectives.collective import Exchange, Group


def _fill(group: Group, place: int) -> None:
    dimension = group.instruction.attributes.split_dimension
    mine = group.parts[place].results
    if dimension is None:
        for part, result in zip(group.parts, mine, strict=True):
            result[...] = part.operands[place]
        return
    block = mine[0].shape[dimension] // len(group.parts)

    def at(number: int) -> tuple[slice, ...]:
        return (*(slice(None),) * dimension, slice(number * block, (number + 1) * block))

    for number, part in enumerate(group.parts):
        mine[0][at(number)] = part.operands[0][at(place)]


ALL_TO_ALL = Exchange(_fill)
