"""`make operations`: write the page."""

from tests.command_line import command_line
from tests.operations_page.page import PATH, page

if __name__ == "__main__":
    command_line("tests.operations_page", __doc__).parse_args()
    text = page()
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(text, encoding="utf-8")
    print(f"{PATH.name}: {len(text.splitlines())} lines")
