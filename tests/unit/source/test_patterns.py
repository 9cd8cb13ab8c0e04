"""Compiler and runtime hand on records: patterns are for texts that others have written."""

from tests.unit.source.test_import_circles import imported, sources

FOLDERS = ("backends", "buffers", "codegen", "fusion", "passes", "runtime")

READERS = {
    "xla_server.backends.diagnostics.dump_directory": "names of dumps, which users give",
    "xla_server.backends.diagnostics.dump_files": "names of modules, which users give",
    "xla_server.codegen.gpu.emit.assembler": "the report of ptxas",
    "xla_server.passes.partitioning.shardy_text": "Shardy's attributes, as JAX writes them",
}
"""The modules of these folders that import `re`, and whose text they read."""


def test_no_other_module_reads_text_by_patterns() -> None:
    texts = {
        name: path.read_text(encoding="utf-8")
        for name, path in sources().items()
        if name.startswith(tuple(f"xla_server.{folder}." for folder in FOLDERS))
    }
    # Most modules are not parsed: an import names the module.
    found = {
        name
        for name, text in texts.items()
        if "import re" in text or "from re " in text
        if any(imported(text, {"re": None}))
    }
    assert found == READERS.keys()


def test_an_import_is_found() -> None:
    for source in ("import re", "from re import compile", "def f():\n    import re"):
        assert list(imported(source, {"re": None})) == ["re"]
    assert not list(imported("import requests\nfrom a import re", {"re": None}))
