import re

from tests.corpus.hlo_text import VECTOR_LOOP
from xla_server.ir.drawings.graphviz import print_dot
from xla_server.ir.text.parser import parse_module

STRING = r'"(?:[^"\\\n]|\\.)*"'
NODE = re.compile(rf"    (i\d+) \[label=({STRING})(, style=bold)?\];")
EDGE = re.compile(r"  (i\d+) -> (i\d+)(?: \[style=(dotted|dashed)\])?;")
OTHER = re.compile(
    rf"digraph {STRING} {{|  node \[.*\];|  subgraph cluster_\d+ {{|    label={STRING};|  }}|}}"
)


def test_instructions_are_nodes_and_what_leads_to_them_edges() -> None:
    module = parse_module(VECTOR_LOOP)
    instructions = list(module.instructions())
    last = module.entry.root
    last.control_predecessors = (module.entry.instructions[0],)
    text = print_dot(module)
    names = {part: f"i{number}" for number, part in enumerate(instructions)}
    nodes = NODE.findall(text)
    assert [name for name, _, _ in nodes] == list(names.values())
    for part, (_, label, bold) in zip(instructions, nodes, strict=True):
        assert label.startswith(f'"{part.name}\\n{part.opcode}')
        assert label.endswith(f'\\n{part.shape}"')
        assert bool(bold) is any(part is each.root for each in module.computations)
    expected = [(names[o], names[part], "") for part in instructions for o in part.operands]
    expected += [
        (names[called.root], names[part], "dashed")
        for part in instructions
        for called in part.called
    ]
    expected.append((names[module.entry.instructions[0]], names[last], "dotted"))
    assert sorted(EDGE.findall(text)) == sorted(expected)
    assert text.count("subgraph") == len(module.computations)


def test_names_stay_inside_their_quotes() -> None:
    module = parse_module(VECTOR_LOOP)
    module.name = 'm"; shape=none \\'
    for part in module.instructions():
        part.name += '\\"];\n"'
    for line in print_dot(module).splitlines():
        assert any(form.fullmatch(line) for form in (NODE, EDGE, OTHER)), line
