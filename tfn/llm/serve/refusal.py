"""Refusals: answers other than 200, in the form of OpenAI's interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfn.errors import ArgumentError, OverloadError, StateError, TfnError

KINDS = {
    401: "authentication_error",
    403: "permission_error",
    500: "server_error",
    503: "server_error",
}
"""The type of an error by its status; others are mistakes of a request."""

RETRY = {"Retry-After": "1"}


class Refused(Exception):
    """A request that is not met.

    Args:
        status: of HTTP.
        message: the reason, for people.
        code: the reason, for programs.
        param: the parameter that has it.
        headers: of the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """The answer as an object of JSON."""
        kind = KINDS.get(self.status, "invalid_request_error")
        return {
            "error": {
                "message": self.message,
                "type": kind,
                "param": self.param,
                "code": self.code,
            }
        }


def ending() -> Refused:
    """The refusal of a server that ends."""
    return Refused(503, "The server is ending.", code="shutting_down", headers=RETRY)


def too_long(count: str, context: int, param: str) -> Refused:
    """The refusal of a prompt that the context has no room for; it is never cut.

    Args:
        count: the number of its tokens, in words.
        context: that of the model.
        param: that has the prompt.
    """
    return Refused(
        400,
        f"This model's context is {context:,} tokens for prompt and answer; the prompt has "
        f"{count}.  Nothing is cut off: shorten the prompt.",
        code="context_length_exceeded",
        param=param,
    )


def of_error(error: BaseException) -> Refused:
    """The refusal that says of an error as much as a caller may know."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, OverloadError):
        return Refused(503, str(error), code="overloaded", headers=RETRY)
    if isinstance(error, (ArgumentError, StateError)):
        return Refused(400, str(error))
    if isinstance(error, TfnError):
        return Refused(500, str(error))
    return Refused(500, "the server made a mistake; its console has the details")
