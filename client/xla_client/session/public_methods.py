"""Wrappers of public methods: they check arguments, survive a server's restart, and raise shortly.

Arguments that no parameter takes, and those that `coercion.parameters` has a rule for, are an
ArgumentTypeError at the call.

A session is gone when its server was started again. A call that meets this opens another session
(`Session.renew`) and is made once more: executables are compiled again when their handles are
looked up, and values of the old session raise LostError. Tracebacks of our errors, and of Ctrl-C,
begin in the caller's code and leave out the frames in between.
"""

import asyncio
import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from xla_client.coercion.parameters import Parameters
from xla_client.session.session import Session
from xla_client.transport.errors import CutOffError
from xla_contract.errors import NotFoundError, SessionEndedError, XlaError

F = TypeVar("F", bound=Callable[..., Any])

_ENDED = SessionEndedError, NotFoundError
"""Errors of a call whose session is gone, or was replaced while the call was in progress."""


def public(method: F) -> F:
    """Wrap a method of an object that has a `_session`."""
    parameters = Parameters(method)

    @functools.wraps(method)
    def call(self: Any, /, *arguments: Any, **named: Any) -> Any:
        session: Session = self._session
        generation = session.generation
        try:
            arguments, named = parameters.taken(arguments, named)
            try:
                return method(self, *arguments, **named)
            except _ENDED as error:
                session.renew(generation, error)
            return method(self, *arguments, **named)
        except CutOffError as error:
            explained = session.after_cut(generation, error)
            raise explained.with_traceback(None) from explained.__cause__
        except (XlaError, KeyboardInterrupt) as error:
            raise error.with_traceback(None) from error.__cause__

    return cast(F, call)


def public_coroutine(method: F) -> F:
    """Wrap a coroutine as `public` wraps a method; opening another session does not block."""
    parameters = Parameters(method)

    @functools.wraps(method)
    async def call(self: Any, /, *arguments: Any, **named: Any) -> Any:
        session: Session = self._session
        generation = session.generation
        try:
            arguments, named = parameters.taken(arguments, named)
            try:
                return await method(self, *arguments, **named)
            except _ENDED as error:
                await asyncio.to_thread(session.renew, generation, error)
            return await method(self, *arguments, **named)
        except CutOffError as error:
            explained = await asyncio.to_thread(session.after_cut, generation, error)
            raise explained.with_traceback(None) from explained.__cause__
        except XlaError as error:
            raise error.with_traceback(None) from error.__cause__

    return cast(F, call)
