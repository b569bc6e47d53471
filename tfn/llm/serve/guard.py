"""Checks of every request before anything else: host, origin, token; and what no route has caught.

A page of another site can make a browser send requests here.  Two checks stop it: its name for this
machine is not one of ours (DNS rebinding), or the browser names it as the origin.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections import Counter
from collections.abc import Callable, Mapping

from tfn.extend import frozen
from tfn.llm.serve.asgi import Application, Left, Message, Receive, Scope, Send, refusing
from tfn.llm.serve.refusal import Refused, of_error

OPEN = {"/", "/health"}
"""Paths that need no token."""


@frozen
class Rules:
    """Who may ask.

    Attributes:
        token: that requests must have; None for none.
        hosts: names of this machine, besides addresses and localhost.
        origins: of other sites whose pages may ask.
    """

    token: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def check(self, path: str, headers: Mapping[str, str]) -> None:
        """Lets a request pass.

        Raises:
            Refused: if it does not.
        """
        host = headers.get("host", "")
        if not self._is_ours(host):
            raise Refused(
                403,
                f"This server is not called {host!r}.  Ask it by its address, or start it with "
                "--allow-host NAME.",
                code="host_not_allowed",
            )
        own = f"http://{host}", f"https://{host}"
        origin = headers.get("origin")
        if origin is not None and origin not in (*self.origins, *own):
            raise Refused(
                403,
                f"Pages of {origin!r} may not ask this server.  Start it with "
                "--allow-origin ORIGIN to let them.",
                code="origin_not_allowed",
            )
        if self.token is None or path in OPEN:
            return
        given = headers.get("authorization", "").partition(" ")
        scheme, token = given[0].lower(), given[2].strip()
        right = hmac.compare_digest(token.encode("latin-1"), self.token.encode())
        if scheme != "bearer" or not right:
            raise Refused(
                401,
                "A token is needed: Authorization: Bearer TOKEN.",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        name = name.rstrip(".").lower()
        return name == "localhost" or name in self.hosts or is_address(name)


def is_address(name: str) -> bool:
    """Whether a name is an address, which no other site can claim."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class Guard:
    """A layer around the routes.

    Args:
        app: the layer within.
        rules: who may ask.
        paths: that are counted by name.
        counts: of answers by path and status, which it adds to.
        told: takes an error that is no refusal.
    """

    def __init__(
        self,
        app: Application,
        rules: Rules,
        paths: frozenset[str],
        counts: Counter[tuple[str, int]],
        told: Callable[[BaseException], None],
    ) -> None:
        self.app, self.rules, self.paths = app, rules, paths
        self.counts, self.told = counts, told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or hands it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-content-type-options", b"nosniff"),
                    (b"cache-control", b"no-store"),
                ]
            await send(message)

        try:
            self.rules.check(scope["path"], headers_of(scope))
            await self.app(scope, receive, noted)
        except Exception as error:
            if not isinstance(error, (Refused, Left)):
                self.told(error)
            if not status:
                await refusing(of_error(error))(scope, receive, noted)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.counts[path, status] += 1


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers of a request, the first of each name."""
    pairs = reversed(scope["headers"])
    return {name.decode("latin-1"): text.decode("latin-1") for name, text in pairs}
