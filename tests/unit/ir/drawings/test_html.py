import html.parser

from tests.corpus.hlo_text import VECTOR_LOOP
from xla_server.ir.drawings import html as page
from xla_server.ir.drawings.html import print_html
from xla_server.ir.text.parser import parse_module


class Reader(html.parser.HTMLParser):
    """Reader of a page as a browser sees it: its ids, links, tags and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: set[str] = set()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.add(value or "")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_every_instruction_is_drawn_and_listed() -> None:
    module = parse_module(VECTOR_LOOP)
    read = Reader(print_html(module))
    instructions = list(module.instructions())
    assert read.tags.count("rect") == len(instructions)
    assert read.tags.count("line") == sum(len(part.operands) for part in instructions)
    assert len(set(read.ids)) == len(read.ids) == len(instructions) + len(module.computations)
    assert all(link.startswith("#") and link[1:] in read.ids for link in read.links)
    text = " ".join(read.texts)
    assert all(part.name in text for part in instructions)


def test_operands_stand_above_and_nothing_overlaps() -> None:
    for computation in parse_module(VECTOR_LOOP).computations:
        positions = page._cells(computation)
        assert len(set(positions.values())) == len(positions)
        for part, (_, row) in positions.items():
            assert all(positions[operand][1] < row for operand in part.operands)


def test_the_page_runs_nothing_whatever_its_names_are() -> None:
    module = parse_module(VECTOR_LOOP)
    bad = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    module.name = bad
    for part in module.instructions():
        part.name += bad
    read = Reader(print_html(module))
    assert not {"script", "img"} & set(read.tags)
    assert not {"src", "onerror"} & read.attributes
    assert "default-src 'none'" in print_html(module)


def test_a_large_computation_is_only_listed() -> None:
    lines = [f"  a{n} = f32[] add(a{n - 1}, a{n - 1})" for n in range(1, page.LARGEST_DRAWING + 1)]
    body = "\n".join(["  a0 = f32[] parameter(0)", *lines[:-1], "  ROOT" + lines[-1][1:]])
    read = Reader(print_html(parse_module(f"HloModule m\nENTRY e {{\n{body}\n}}\n")))
    assert "svg" not in read.tags
    assert read.tags.count("tr") == page.LARGEST_DRAWING + 2
