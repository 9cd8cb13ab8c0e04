"""Checks of the arguments of public methods: names, counts, and parameters common to many methods.

The check costs a call without keywords next to nothing, and loads no module for writing programs.
"""

import functools
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from xla_client.coercion.numbers import flag, refusal, text
from xla_client.coercion.signatures import require_bound
from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.types.layout import Layout
from xla_contract.types.shape import Shape

Rule = Callable[[str, Any], Any]
"""Gives what a parameter of this name works with; raises ArgumentTypeError for other types."""


_CLASSES: dict[str, type] = {}
"""Classes of parameters by name, once their modules are loaded; before that no object of them
exists."""

_PUBLIC_CLASSES = {
    "BatchedRuns": "Executable",
    "Devices": "Client",
    "Explainable": "Executable",
    "Launching": "Client",
    "ShardedRuns": "Executable",
}
"""The class that users know, by the base class that defines some of its methods."""

T = TypeVar("T", bound=type)
F = TypeVar("F", bound=Callable[..., Any])


def parameter_class(kind: T) -> T:
    """Register a class for the rules of parameters that take its objects."""
    _CLASSES[kind.__name__] = kind
    return kind


def known(*kinds: str | type) -> tuple[Any, ...]:
    """Return classes; of those given by name, only the ones that are registered."""
    found = (_CLASSES.get(kind) if isinstance(kind, str) else kind for kind in kinds)
    return tuple(kind for kind in found if kind is not None)


class Parameters:
    """The parameters of a public function or method."""

    def __init__(self, function: Callable[..., Any]) -> None:
        code = function.__code__
        count = code.co_argcount
        self._function = function
        place = function.__qualname__.removesuffix(".__call__").removesuffix(".__init__")
        owner, _, method = place.partition(".")
        self._place = f"{_PUBLIC_CLASSES[owner]}.{method}" if owner in _PUBLIC_CLASSES else place
        names = code.co_varnames[: count + code.co_kwonlyargcount]
        self.is_method = names[:1] in (("self",), ("cls",))
        self._positional = names[self.is_method : count]
        self._known = frozenset(names[self.is_method :])
        self._takes_rest = bool(code.co_flags & 0x04)
        self._takes_any_name = bool(code.co_flags & 0x08)
        self._least = len(self._positional) - len(function.__defaults__ or ())
        self._ruled = [
            (number, name, RULES[name])
            for number, name in enumerate(self._positional)
            if name in RULES
        ]

    def taken(
        self, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments, without `self`, as the function works with them.

        Raises ArgumentTypeError, which names the function and the parameter.
        """
        try:
            if not self._is_bound(arguments, named):
                require_bound(self._function, arguments, named, is_method=self.is_method)
            if named:
                named = {
                    name: RULES[name](name, value) if name in RULES else value
                    for name, value in named.items()
                }
            if self._ruled and arguments:
                given = list(arguments)
                for number, name, rule in self._ruled:
                    if number < len(given):
                        given[number] = rule(name, given[number])
                arguments = tuple(given)
        except XlaError as error:
            raise error.at(self._place) from None
        return arguments, named

    def _is_bound(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Return whether each argument has a parameter, and each required parameter an argument.

        The result is that of `inspect.Signature.bind`, in a hundredth of the time.
        """
        count, names = len(arguments), self._positional
        if count > len(names) and not self._takes_rest:
            return False
        if not named:
            return count >= self._least
        return (
            (self._takes_any_name or self._known.issuperset(named))
            and not any(name in named for name in names[:count])
            and all(name in named for name in names[count : self._least])
        )


def seconds(name: str, value: Any) -> Any:
    """Return a number of seconds, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise refusal(name, "a number of seconds or None", value)
    if value != value:
        raise InvalidArgumentError(f"{name} must be a number of seconds or None, got nan")
    return value.item() if isinstance(value, np.generic) else value


def integer(name: str, value: Any) -> int:
    """Return a Python int; an object with `__index__` is none: a Buffer's waits for its value."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise refusal(name, "an int", value)
    return int(value)


def handle(name: str, value: Any) -> int:
    """Return a handle."""
    number = integer(name, value)
    if not 0 <= number < 1 << 63:
        raise InvalidArgumentError(f"{name} must be between 0 and 2**63 - 1, got {number}")
    return number


def optional(rule: Rule) -> Rule:
    """Return the rule that takes None, too."""
    return lambda name, value: None if value is None else rule(name, value)


def instance(needed: str, *kinds: Any) -> Rule:
    """Return the rule that takes objects of classes, or of registered ones by their names."""

    def rule(name: str, value: Any) -> Any:
        if not isinstance(value, known(*kinds)):
            raise refusal(name, needed, value)
        return value

    return rule


_layout_choice = instance("a Layout, a Shape with layouts or None", Layout, Shape, types.NoneType)


def ordinal(name: str, value: Any) -> int:
    """Return the number of a device, of which one may be given itself."""
    if isinstance(value, known("Device")):
        return int(value.ordinal)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise refusal(name, "the number of a device, from 0, or a Device", value)
    if value < 0:
        raise InvalidArgumentError(f"{name} must be the number of a device, from 0, got {value}")
    return int(value)


def argument_numbers(name: str, value: Any) -> tuple[int, ...] | None:
    """Return numbers of arguments as a tuple, or None."""
    if value is None:
        return None
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        numbers = tuple(value)
        if not any(isinstance(each, bool) for each in numbers) and all(
            isinstance(each, int | np.integer) for each in numbers
        ):
            return tuple(map(int, numbers))
    raise refusal(name, "a sequence of numbers of arguments, as (0,), or None", value)


def launches(name: str, value: Any) -> list[Any]:
    """Return a list of Launches."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        given = list(value)
        if all(isinstance(each, known("Launch")) for each in given):
            return given
    raise refusal(name, "a sequence of Launch(computation, arguments, device)", value)


def metadata(name: str, value: Any) -> Any:
    """Return headers of calls."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        pairs = list(value)
        if all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
            return tuple(map(tuple, pairs))
    raise refusal(name, "a sequence of pairs of a name and a value", value)


def batch(name: str, value: Any) -> list[Any]:
    """Return a list with one sequence of arguments for each run."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise refusal(name, "a sequence with a sequence of arguments for each run", value)
    return list(value)


def arguments_of_run(name: str, value: Any) -> Sequence[Any]:
    """Return the arguments of one run among several."""
    if isinstance(value, list | tuple):
        return value
    raise refusal(name, "a list or tuple with the arguments of each run, as (x,)", value)


def layouts(name: str, value: Any) -> Any:
    """Return a sequence with a layout for each parameter, or None."""
    if value is not None and (isinstance(value, str) or not isinstance(value, Iterable)):
        raise refusal(name, "a sequence with a Layout, a Shape or None for each parameter", value)
    return None if value is None else [_layout_choice(name, each) for each in value]


def returns(name: str, value: Any) -> Any:
    """Return the class of a call's result, or None."""
    stated = any(value is each for each in (None, tuple, *known("Buffer")))
    if stated or isinstance(value, types.GenericAlias):
        return value
    raise refusal(name, "tuple, xla_client.Buffer or None", value)


RULES: Mapping[str, Rule] = types.MappingProxyType(
    {
        "timeout": seconds,
        "connect_timeout": seconds,
        "device": ordinal,
        "ordinal": ordinal,
        "donate": argument_numbers,
        "handle": handle,
        "seed": integer,
        "type": integer,
        "devices": integer,
        "platform": text,
        "count": optional(integer),
        "channel_id": optional(handle),
        "prefetch": integer,
        "run": optional(instance("an Execution, as Executable.submit gives it", "Execution")),
        "target": instance("a str such as 'host:1685'", str),
        "session": optional(text),
        "token": optional(
            instance(
                "a token, the path of a file, a function that gives one, or None",
                str,
                os.PathLike,
                Callable,
            )
        ),
        "credentials": optional(
            instance("a Tls, a grpc.ChannelCredentials or None", "Tls", "ChannelCredentials")
        ),
        "metadata": metadata,
        "client": instance("a Client, as xla_client.connect gives it", "Client"),
        "shared_memory": optional(flag),
        "progress": optional(
            instance("a function of (bytes done, bytes in all) or None", Callable)
        ),
        "return_exceptions": flag,
        "insecure": flag,
        "batch": batch,
        "launches": launches,
        "layout": optional(instance("a Layout or None", Layout)),
        "argument_layouts": layouts,
        "result_layout": _layout_choice,
        "debug_options": optional(
            instance("a mapping of names of DebugOptions to their values, or None", Mapping)
        ),
        "mesh": optional(instance("a Mesh, as client.mesh gives it, or None", "Mesh")),
        "returns": returns,
        "buffer": instance("a Buffer, as client.to_device gives it", "Buffer"),
        "executable": instance("an Executable, as client.compile gives it", "Executable"),
        "result": instance("the result of a step, as Pipeline.call gives it", "StepResult"),
    }
)
"""The rule of each parameter that has one name and one meaning in all methods."""


def brief(method: F) -> F:
    """Wrap a function or method to which a restart of the server does not matter."""
    parameters = Parameters(method)

    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            own = arguments[: parameters.is_method]
            arguments, named = parameters.taken(arguments[len(own) :], named)
            return method(*own, *arguments, **named)
        except (XlaError, KeyboardInterrupt) as error:
            raise error.with_traceback(None) from error.__cause__

    return cast(F, call)
