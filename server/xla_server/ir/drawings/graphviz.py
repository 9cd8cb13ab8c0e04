"""HloModule -> a graph in the language of Graphviz."""

from collections.abc import Iterator

from xla_server.ir.drawings.html import kind_of
from xla_server.ir.module import HloComputation, HloInstruction, HloModule


def print_dot(module: HloModule) -> str:
    """The module as a digraph: clusters are computations, dashed edges calls, dotted orders."""
    return "\n".join(_lines(module)) + "\n"


def _lines(module: HloModule) -> Iterator[str]:
    nodes = {part: f"i{number}" for number, part in enumerate(module.instructions())}
    yield f"digraph {_quoted(module.name)} {{"
    yield '  node [shape=box, fontname="monospace", fontsize=10];'
    for number, computation in enumerate(module.computations):
        yield from _cluster(number, computation, computation is module.entry, nodes)
    for user in module.instructions():
        for operand in user.operands:
            yield f"  {nodes[operand]} -> {nodes[user]};"
        for part in user.control_predecessors:
            yield f"  {nodes[part]} -> {nodes[user]} [style=dotted];"
        for called in user.called:
            yield f"  {nodes[called.root]} -> {nodes[user]} [style=dashed];"
    yield "}"


def _cluster(
    number: int,
    computation: HloComputation,
    is_entry: bool,
    nodes: dict[HloInstruction, str],
) -> Iterator[str]:
    yield f"  subgraph cluster_{number} {{"
    yield f"    label={_quoted(('ENTRY ' if is_entry else '') + computation.name)};"
    for part in computation.instructions:
        label = _quoted(f"{part.name}\n{kind_of(part)}\n{part.shape}")
        bold = ", style=bold" if part is computation.root else ""
        yield f"    {nodes[part]} [label={label}{bold}];"
    yield "  }"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
