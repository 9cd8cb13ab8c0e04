"""Wrappers of public methods: they survive a server's restart and raise with short tracebacks.

A session is gone when its server was started again. A call that meets this opens another session
(`Session.renew`) and is made once more: executables are compiled anew when their handles are
looked up, and values of the old session raise LostError. Tracebacks of our errors, and of Ctrl-C,
begin in the caller's code and leave out the frames in between.
"""

import asyncio
import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from xla_client._session import Session
from xla_contract.errors import NotFoundError, SessionEndedError, XlaError

F = TypeVar("F", bound=Callable[..., Any])

_ENDED = SessionEndedError, NotFoundError
"""Errors of a call in a session that is gone, or that was replaced while the call was under way."""


def public(method: F) -> F:
    """Wrap a method of an object that has a `_session`."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: Any, **named: Any) -> Any:
        session: Session = self._session
        generation = session.generation
        try:
            try:
                return method(self, *arguments, **named)
            except _ENDED as error:
                session.renew(generation, error)
            return method(self, *arguments, **named)
        except (XlaError, KeyboardInterrupt) as error:
            raise error.with_traceback(None) from error.__cause__

    return cast(F, call)


def brief(method: F) -> F:
    """Wrap a method of which only the tracebacks are to be short."""

    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except (XlaError, KeyboardInterrupt) as error:
            raise error.with_traceback(None) from error.__cause__

    return cast(F, call)


def public_coroutine(method: F) -> F:
    """Wrap a coroutine as `public` wraps a method; opening another session does not block."""

    @functools.wraps(method)
    async def call(self: Any, /, *arguments: Any, **named: Any) -> Any:
        session: Session = self._session
        generation = session.generation
        try:
            try:
                return await method(self, *arguments, **named)
            except _ENDED as error:
                await asyncio.to_thread(session.renew, generation, error)
            return await method(self, *arguments, **named)
        except XlaError as error:
            raise error.with_traceback(None) from error.__cause__

    return cast(F, call)
