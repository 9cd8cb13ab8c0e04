"""Functions of JAX that run on the server."""

import copy
import dataclasses
import functools
import hashlib
import inspect
import itertools
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from xla_client.programs.computation import ProgramLike
from xla_client.programs.jax_programs import JaxProgram, jax_module, jax_program, jax_type
from xla_client.runs.executable import Executable
from xla_client.runs.execution import Execution
from xla_client.runs.sharded import Mesh
from xla_client.session.buffer import Buffer
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError, LostError, XlaError

T = TypeVar("T")

_NUMBERS = (bool, int, float, complex)
_BY_NAME = inspect.Parameter.KEYWORD_ONLY
_BY_NUMBER = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
"""The kinds of parameters that an argument by number can be for."""

_MAX_VERSIONS = 4096
"""Number of types of arguments, as they are given and as JAX has them, with a program: those that
were called last are kept, as in the caches of `jax.jit`, which have this size, too."""

_Version: TypeAlias = tuple[Executable[Any], JaxProgram]
"""A function, compiled for certain types of arguments."""


@dataclasses.dataclass(eq=False, slots=True, weakref_slot=True)
class _Constant:
    """A large array that a function closes over, and its Buffer once it was uploaded."""

    value: Any
    buffer: Buffer | None = None


class Compiler(Protocol):
    """A Client, whose server compiles programs and keeps arrays."""

    def compile(self, computation: ProgramLike, *, mesh: Mesh | None = None) -> Executable[Any]:
        """Return the compiled program."""

    def to_device(self, value: Any) -> Buffer:
        """Upload an array."""


class JaxFunction:
    """A function of JAX that runs on the server, from `Client.jit`. Safe to use from threads.

    For each tree and types of arguments, and for each value of static ones, there is a program,
    which is compiled at the first such call.
    """

    def __init__(
        self,
        client: Compiler,
        mesh: Mesh | None,
        statics: Sequence[Any],
        donated: Sequence[Any],
        function: Any,
    ) -> None:
        """`statics` and `donated` have numbers and names of parameters, or lists of them."""
        jax = jax_module()
        if hasattr(function, "mlir_module_serialized"):
            function = function.call
        if not callable(function):
            raise ArgumentTypeError(
                f"jit: fun must be a function or a jax.export.Exported, got {function!r:.80}"
            )
        functools.update_wrapper(self, function)
        self._name = getattr(function, "__name__", type(function).__name__)
        self._client, self._function, self._mesh = client, function, mesh
        self._signature = _signature(function)
        self._statics = self._parameters(statics)
        self._donated = self._parameters(donated)
        self._flatten = jax.tree.flatten
        # It is traced to another object wherever settings of JAX are others, as of 64 bits.
        self._settings = jax.jit(lambda: None).trace
        self._versions = functools.lru_cache(_MAX_VERSIONS)(_no_version)
        # Weak: programs own constants.
        self._constants: weakref.WeakValueDictionary[Any, _Constant] = weakref.WeakValueDictionary()
        self._compiling = threading.RLock()
        self._timeout: float | None = None

    def with_timeout(self, seconds: float | None) -> "JaxFunction":
        """Return the function, with the same programs, for runs that may take so long.

        A first call traces and compiles without this limit. It is no argument of calls, as those
        belong to the function.

        Args:
            seconds: Seconds until DeadlineExceededError: of a call, or of the run that `submit`
                starts; None for the client's own.

        Returns:
            The function.
        """
        function = copy.copy(self)
        function._timeout = seconds
        return function

    def __call__(self, /, *arguments: Any, **named: Any) -> Any:
        """Run the function on the server.

        Args:
            arguments: Its arguments: trees of Buffers, arrays of numpy and JAX, and numbers.
            named: Its arguments by name.

        Returns:
            The tree that it returns, with Buffers, which stay on the server.

        Raises:
            ArgumentTypeError: An argument, which is named, is none of these.
            InvalidArgumentError: A Buffer, which is named, was donated or deleted.
            UnimplementedError: The server cannot compile an instruction, as a callback.
            LostError: The server was restarted, and an argument is a Buffer from before.
            XlaError: The run failed.
        """
        return self._call(
            arguments,
            named,
            lambda executable, passed, program: _tree_of(
                program, executable(*passed, timeout=self._timeout)
            ),
        )

    def submit(self, /, *arguments: Any, **named: Any) -> Execution[Any]:
        """Start a run, and return at once if there is a program for these arguments.

        Args:
            arguments: Arguments, as of a call.
            named: Arguments by name.

        Returns:
            The run, which can be awaited, and has `result(timeout)`. Both give the tree that a call
            returns; `buffers` is this tree before it has values, for arguments of further calls.

        Raises:
            ResourceExhaustedError: The session has as many launched executions as it may.
            XlaError: A call with these arguments raises it, too, before the run begins.
        """
        return self._call(
            arguments,
            named,
            lambda executable, passed, program: executable.launch(
                passed, None, self._timeout, functools.partial(_tree_of, program)
            ),
        )

    def _call(
        self,
        arguments: Sequence[Any],
        named: dict[str, Any],
        run: Callable[[Executable[Any], list[Any], JaxProgram], T],
    ) -> T:
        """Run the program for these arguments, once more if large arrays were lost."""
        leaves, (executable, program) = self._version(arguments, named)
        constants = [self._uploaded(each) for each in program.constants]
        try:
            return run(executable, [*constants, *leaves], program)
        except LostError:
            if not any(each.is_lost for each in constants):
                raise
            # The server was restarted.
            constants = [self._uploaded(each) for each in program.constants]
            return run(executable, [*constants, *leaves], program)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Return the method of an object, where the function is decorated in its class."""
        return self if instance is None else types.MethodType(self, instance)

    def executable(self, /, *arguments: Any, **named: Any) -> Executable[Any]:
        """Return the program that a call with these arguments runs, for `explain` and the like.

        Args:
            arguments: Arguments, as of a call.
            named: Arguments by name.

        Returns:
            The program. Its parameters are the large arrays that the function closes over, then
            the arrays of the arguments, by the names of parameters.
        """
        return self._version(arguments, named)[1][0]

    def clear_cache(self) -> None:
        """Forget all programs, and the arrays that the function closes over."""
        self._versions.cache_clear()

    def _version(
        self, arguments: Sequence[Any], named: dict[str, Any]
    ) -> tuple[list[Any], _Version]:
        """Return the arrays among the arguments, and the program for them."""
        try:
            passed = self._signature.bind(*arguments, **named).arguments
        except TypeError as error:
            raise ArgumentTypeError(f"{self._name}: {error}") from None
        # With their types, because 1, 1.0 and True are equal, but make other programs.
        statics = tuple(
            (name, type(passed[name]), passed.pop(name)) for name in self._statics if name in passed
        )
        leaves, tree = self._flatten(passed)
        try:
            key = tuple(map(_form, leaves)), tree, statics, self._settings().jaxpr
            versions = self._versions(key)
            if not versions:
                self._require(statics, passed)
                with self._compiling:
                    versions[:] = [self._compiled(key, leaves)]
            return list(map(_value, leaves, versions[0][1].dtypes)), versions[0]
        except (XlaError, TypeError, AttributeError):
            self._require(statics, passed)
            raise

    def _compiled(self, key: Any, leaves: Sequence[Any]) -> _Version:
        """Return the program for arguments, compiled unless their types in JAX have one."""
        forms, tree, statics, settings = key
        kinds = [
            form if isinstance(leaf, Buffer) else jax_type(jax_module().typeof(leaf))
            for form, leaf in zip(forms, leaves, strict=True)
        ]
        versions = self._versions((tuple(kinds), tree, statics, settings))
        if not versions:
            arrays = tree.unflatten(
                jax_module().ShapeDtypeStruct(shape, dtype, weak_type=weak)
                for shape, dtype, weak in kinds
            )
            donated = self._donated & arrays.keys()
            program = jax_program(self._of_arrays(statics, arrays), arrays, donated)
            program.constants[:] = map(self._constant, program.constants)
            executable = self._client.compile(program.computation, mesh=self._mesh)
            versions.append((executable, program))
        return versions[0]

    def _of_arrays(
        self, statics: Iterable[tuple[str, type, Any]], names: Iterable[str]
    ) -> Callable[..., Any]:
        """Return the function of its arrays, by these names, with values for static arguments.

        Errors of JAX name its parameters and the line where it is defined.
        """
        values = {name: value for name, _, value in statics}

        def function(**arrays: Any) -> Any:
            passed = inspect.BoundArguments(self._signature, OrderedDict(arrays, **values))
            return self._function(*passed.args, **passed.kwargs)

        parameters = [inspect.Parameter(each, _BY_NAME) for each in sorted(names)]
        signature = inspect.Signature(parameters)
        function.__name__ = self._name
        function.__dict__.update(__wrapped__=self._function, __signature__=signature)
        return function

    def _constant(self, value: Any) -> _Constant:
        """Return the constant of an array, which programs share; those of numpy by their bits."""
        key: Any = id(value)
        if isinstance(value, np.ndarray):
            key = value.shape, value.dtype, hashlib.blake2b(value.tobytes()).digest()
        return self._constants.setdefault(key, _Constant(value))

    def _uploaded(self, constant: _Constant) -> Buffer:
        """Return the Buffer of an array that the function closes over."""
        if constant.buffer is None or constant.buffer.is_lost:
            constant.buffer = self._client.to_device(np.asarray(constant.value))
        return constant.buffer

    def _parameters(self, passed: Sequence[Any]) -> frozenset[str]:
        """Return the names of parameters that are given by number or name."""
        parameters = self._signature.parameters.values()
        numbered = [each.name for each in parameters if each.kind in _BY_NUMBER]
        names: dict[Any, str] = {
            each.name: each.name for each in parameters if each.kind in (*_BY_NUMBER, _BY_NAME)
        }
        for number, name in enumerate(numbered):
            names[number] = names[number - len(numbered)] = name
        lists = [each if isinstance(each, list | tuple) else [each] for each in passed]
        wanted = list(itertools.chain(*lists))
        for each in wanted:
            if each not in names:
                raise InvalidArgumentError(
                    "jit: static and donated arguments must be parameters, got "
                    f"{each!r} for {self._name}{self._signature}"
                )
        return frozenset(names[each] for each in wanted)

    def _require(self, statics: Iterable[tuple[str, type, Any]], passed: dict[str, Any]) -> None:
        """Raise the error of an argument that no call takes, if there is one."""
        for name, _, value in statics:
            if not isinstance(value, Hashable):
                raise ArgumentTypeError(
                    f"{self._name}: a static argument must be hashable, got "
                    f"{type(value).__name__} for {name}"
                )
        paths = jax_module().tree_util
        for (first, *rest), leaf in paths.tree_leaves_with_path(passed):
            self._require_array(f"{first.key}{paths.keystr(tuple(rest))}", leaf)

    def _require_array(self, path: str, leaf: Any) -> None:
        """Raise the error of a leaf of the arguments that no call takes."""
        jax = jax_module()
        if isinstance(leaf, jax.core.Tracer):
            raise ArgumentTypeError(
                f"{self._name}: a function on a server must be called with values, got a traced "
                f"{leaf.aval} for {path}",
                hint="Transform first: client.jit(jax.grad(f)), client.jit(jax.vmap(f)).",
            )
        if isinstance(leaf, Buffer) and leaf.shape.is_array:
            if leaf.is_deleted:
                raise InvalidArgumentError(
                    f"{self._name}: a buffer must be alive to be used, got the deleted "
                    f"{leaf.shape} for {path}",
                    hint="A call ends the Buffers that it is given for donate_argnums.",
                )
            canonical = jax.dtypes.canonicalize_dtype(leaf.dtype)
            if canonical != leaf.dtype:
                raise InvalidArgumentError(
                    f"{self._name}: a buffer must have a type that JAX has, got {leaf.shape} for "
                    f"{path}",
                    hint=f"Upload array.astype('{canonical}'), or allow types of 64 bits by "
                    "jax.config.update('jax_enable_x64', True).",
                )
            return
        try:
            jax.typeof(leaf)
        except (TypeError, ValueError):  # a ValueError for a Buffer that is a tuple
            raise ArgumentTypeError(
                f"{self._name}: an argument must be an array, a number or a tree of them, got "
                f"{type(leaf).__name__} for {path}",
                hint="static_argnames=... passes other values, which must be hashable.",
            ) from None

    def __repr__(self) -> str:
        return f"JaxFunction({self._name}{self._signature})"


def _no_version(key: Any) -> list[_Version]:
    """Return the list of a key's program, empty until it is compiled."""
    return []


def _signature(function: Any) -> inspect.Signature:
    """Return the signature of a function: any arguments where it has none, as `max`."""
    try:
        return inspect.signature(function)
    except ValueError:
        return inspect.signature(lambda *args, **kwargs: None)


def _tree_of(program: JaxProgram, result: Any) -> Any:
    """Return what a program's function returns, with the Buffers of a run's result."""
    buffers = [result] if isinstance(result, Buffer) else result
    for buffer, kind in zip(buffers, program.results, strict=True):
        buffer.jax_type = kind
    return program.tree.unflatten(buffers)


def _form(leaf: Any) -> Any:
    """Return what JAX's type of an argument follows from; of a Buffer, it is that type."""
    if isinstance(leaf, Buffer):
        return leaf.jax_type or (leaf.shape.dimensions, leaf.dtype, False)
    # An np.float64 is a float, too, but in JAX an array.
    is_number = isinstance(leaf, _NUMBERS) and not isinstance(leaf, np.generic)
    return type(leaf) if is_number else ("here", jax_type(leaf))


def _value(leaf: Any, dtype: Any) -> Any:
    """Return an argument as a program takes it."""
    if not isinstance(leaf, Buffer):
        return np.asarray(jax_module().random.key_data(leaf) if dtype is None else leaf, dtype)
    if leaf.is_deleted:
        raise InvalidArgumentError(f"a buffer must be alive to be used, got {leaf}")
    return leaf
