"""Flags of commands that are declared by a record instead of a command's signature."""

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

import typer

Command = TypeVar("Command", bound=Callable[..., None])


def flag(name: str, kind: Any, description: str, metavar: str | None = None) -> inspect.Parameter:
    """Return the keyword parameter, None by default, that typer reads as the flag of a name.

    The flag has `-` for `_`, and a `bool` also `--no-name`. Help shows `metavar` instead of `kind`.
    """
    option = typer.Option(help=description, metavar=metavar, show_default=False)
    annotation: Any = Annotated[kind | None, option]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def switch(name: str, description: str) -> inspect.Parameter:
    """Return the keyword parameter, False by default, of a flag that has no value."""
    option = typer.Option(f"--{name}", help=description, show_default=False)
    annotation = Annotated[bool, option]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation
    )


def with_flags(flags: Iterable[inspect.Parameter]) -> Callable[[Command], Command]:
    """Return a decorator by which typer sees these parameters instead of `**flags`."""

    def declare(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [
            each
            for each in signature.parameters.values()
            if each.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        parameters = [*own, *flags]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return declare
