"""All broken constraints, family by family."""

import importlib
import pkgutil

from tests.unit.ops.constraints import families
from tests.unit.ops.constraints.case import Case

CASES: tuple[Case, ...] = tuple(
    case
    for family in pkgutil.walk_packages(families.__path__, f"{families.__name__}.")
    if not family.ispkg
    for case in importlib.import_module(family.name).CASES
)
