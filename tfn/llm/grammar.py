"""The grammar of JSON, byte by byte: which texts are the beginning of an object.

A state is a mode and the containers that are open.  Between tokens of JSON there may be some white
space, but not without end, as models like to write.

Source: RFC 8259.
"""

from __future__ import annotations

from typing import NamedTuple

SPACE_LIMIT = 40
"""The most bytes of white space in a row."""

DEPTH_LIMIT = 64
"""The most containers within each other."""

SPACES = b" \t\n\r"
DIGITS = b"0123456789"
HEX = b"0123456789abcdefABCDEF"
LITERALS = {ord("t"): "rue", ord("f"): "alse", ord("n"): "ull"}

NUMBERS: dict[str, dict[bytes, str]] = {
    "-": {b"0": "0", DIGITS: "int"},
    "0": {b".": ".", b"eE": "e"},
    "int": {DIGITS: "int", b".": ".", b"eE": "e"},
    ".": {DIGITS: "frac"},
    "frac": {DIGITS: "frac", b"eE": "e"},
    "e": {b"+-": "sign", DIGITS: "exp"},
    "sign": {DIGITS: "exp"},
    "exp": {DIGITS: "exp"},
}
"""The parts of a number: after each, which bytes lead to which."""

WHOLE = {"0", "int", "frac", "exp"}
"""Parts at which a number may end."""


class State(NamedTuple):
    """A place in an object.

    Attributes:
        mode: "object" before it, "value", "first" value of an array, "key", "first key", "colon",
            "after" a value, "string" or "name" within one, a part of a number or a literal's rest.
        open: containers around, "{" and "[".
        spaces: bytes of white space just before.
    """

    mode: str = "object"
    open: str = ""
    spaces: int = 0

    @property
    def is_done(self) -> bool:
        """Whether the object is whole."""
        return self.mode == "after" and not self.open


def fed(state: State | None, text: bytes) -> State | None:
    """The state after more bytes; None if no object begins like this.

    Example:
        >>> fed(State(), b'{"a": [1, 2')
        State(mode='int', open='{[', spaces=0)
        >>> fed(State(), b'{"a": 01') is None
        True
        >>> fed(State(), b'{"a": 0}').is_done
        True
    """
    for byte in text:
        if state is None:
            return None
        state = _step(state, byte)
    return state


def _step(state: State, byte: int) -> State | None:
    mode, containers, spaces = state
    if mode in ("string", "name") or mode[0] == "\\":
        return _in_string(state, byte)
    if mode in NUMBERS:
        for bytes_, following in NUMBERS[mode].items():
            if byte in bytes_:
                return State(following, containers)
        return _step(State("after", containers), byte) if mode in WHOLE else None
    if mode[0] == "=":  # the rest of a literal
        if byte != ord(mode[1]):
            return None
        return State(mode[0] + mode[2:] if mode[2:] else "after", containers)
    if byte in SPACES:
        return State(mode, containers, spaces + 1) if spaces < SPACE_LIMIT else None
    sign = chr(byte)
    if mode == "object":
        return State("first key", "{") if sign == "{" else None
    if mode in ("key", "first key"):
        if sign == '"':
            return State("name", containers)
        return State("after", containers[:-1]) if sign == "}" and mode == "first key" else None
    if mode == "colon":
        return State("value", containers) if sign == ":" else None
    if mode == "after":
        return _after(containers, sign)
    if sign == "]" and mode == "first":
        return State("after", containers[:-1])
    return _value(containers, byte)


def _after(containers: str, sign: str) -> State | None:
    if not containers:
        return None
    if sign == ",":
        return State("key" if containers[-1] == "{" else "value", containers)
    closes = {"{": "}", "[": "]"}[containers[-1]] == sign
    return State("after", containers[:-1]) if closes else None


def _value(containers: str, byte: int) -> State | None:
    sign = chr(byte)
    if sign in "{[":
        deeper = len(containers) < DEPTH_LIMIT
        return State("first key" if sign == "{" else "first", containers + sign) if deeper else None
    if sign == '"':
        return State("string", containers)
    if sign == "-":
        return State("-", containers)
    if byte in DIGITS:
        return State("0" if sign == "0" else "int", containers)
    return State("=" + LITERALS[byte], containers) if byte in LITERALS else None


def _in_string(state: State, byte: int) -> State | None:
    """A place in a string; of an escape the mode is a backslash, digits to come, and the string."""
    mode, containers, _ = state
    if mode[0] == "\\":
        left, inner = mode[1], mode[2:]
        if left == "?":
            if byte == ord("u"):
                return State("\\4" + inner, containers)
            return State(inner, containers) if byte in b'"\\/bfnrt' else None
        if byte not in HEX:
            return None
        return State(inner if left == "1" else f"\\{int(left) - 1}{inner}", containers)
    if byte == ord('"'):
        return State("colon" if mode == "name" else "after", containers)
    if byte == ord("\\"):
        return State("\\?" + mode, containers)
    return state if byte >= 32 else None
