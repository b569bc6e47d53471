"""Refusals: their form, and what a caller learns of an error."""

from __future__ import annotations

import pytest

from tfn.errors import ArgumentError, NotAvailableError, OverloadError
from tfn.llm.serve.refusal import Refused, ending, of_error, too_long


def test_refusals_have_the_form_of_openai() -> None:
    error = too_long("70 tokens", 64, "prompt").body["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["code"] == "context_length_exceeded" and error["param"] == "prompt"
    assert "64" in error["message"] and "70" in error["message"]
    assert ending().headers == {"Retry-After": "1"}


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (Refused(413, "a"), 413, "invalid_request_error"),
        (ArgumentError("a wish"), 400, "invalid_request_error"),
        (OverloadError("full"), 503, "server_error"),
        (NotAvailableError("a device"), 500, "server_error"),
        (ZeroDivisionError("secret"), 500, "server_error"),
    ],
)
def test_errors_tell_what_a_caller_may_know(error: Exception, status: int, kind: str) -> None:
    found = of_error(error)
    assert found.status == status and found.body["error"]["type"] == kind
    assert "secret" not in found.message
