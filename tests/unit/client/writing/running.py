"""Programs that are written and run at once."""

from collections.abc import Callable
from typing import Any

import numpy as np

import xla_client as xc
from xla_client import Builder
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify


def run(client: xc.Client, write: Callable[..., Any], *arguments: Any) -> Any:
    """Run a program that is written with a parameter for each argument, and return its result.

    `write` is given the builder and an Op for each argument, arrays of numpy.
    """
    builder = Builder("program")
    arrays = [np.asarray(argument) for argument in arguments]
    parameters = [builder.parameter(number, array) for number, array in enumerate(arrays)]
    computation = builder.build(write(builder, *parameters))
    verify(import_module(computation.proto))
    return client.compile(computation).run(*arrays)
