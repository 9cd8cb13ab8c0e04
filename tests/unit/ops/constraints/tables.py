"""All broken constraints, family by family."""

import importlib
import pkgutil

from tests.unit.ops.constraints import families
from tests.unit.ops.constraints.case import Case

CASES: tuple[Case, ...] = tuple(
    case
    for family in pkgutil.iter_modules(families.__path__)
    for case in importlib.import_module(f"{families.__name__}.{family.name}").CASES
)
