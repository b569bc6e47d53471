"""Names of a package whose files are loaded when one of them is first asked for.

    with on_demand(globals()):
        from tfn.numpy.sets import union1d as union1d

is an import statement for everybody who reads the file, people and type checkers alike.  Python
only notes it: `tfn.numpy.sets` is loaded by the first ``tfn.numpy.union1d``.  Most of what a large
library offers is not used by most programs, and loading it is most of the time that importing the
library takes.

Source: PEP 562, module ``__getattr__``; PEP 810 gives Python such statements of its own.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from importlib import import_module
from threading import Lock
from typing import Any, NamedTuple, cast

from tfn._support.sections import section

_TURN = Lock()
"""One block at a time: the import function is the whole process's."""


class _Noted(NamedTuple):
    """What an import statement asked for."""

    module: str
    name: str


class _Module:
    """What an import statement takes its names from, in place of the module."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __getattr__(self, name: str) -> _Noted:
        return _Noted(self.module, name)


class on_demand:
    """Imports of names in this block are done when the package is first asked for the name.

    Args:
        package: the ``globals()`` of the ``__init__`` file that has the block, its only one.
    """

    def __init__(self, package: dict[str, Any]) -> None:
        self.package = package

    def __enter__(self) -> None:
        self.section = section()
        self.section.acquire()
        _TURN.acquire()
        self.really = builtins.__import__
        builtins.__import__ = cast(Any, self._import)

    def __exit__(self, *error: object) -> None:
        builtins.__import__ = self.really
        _TURN.release()
        self.section.release()
        package, order = self.package, list(self.package)
        names = {name: n for name, n in package.items() if isinstance(n, _Noted)}
        for name in names:
            del package[name]
        package["__getattr__"] = _Loader(package, names)
        package["__dir__"] = lambda: list(dict.fromkeys([*order, *package]))

    def _import(
        self,
        name: str,
        namespace: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        asked: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """What Python calls to import while the block runs, in other files and threads too."""
        if namespace is not self.package:
            return self.really(name, namespace, local, asked or (), level)
        assert asked and not level, "a block notes `from whole.path import name as name`"
        return _Module(name)


def _imported(noted: _Noted, own: str) -> Any:
    """A name of a module, or else the file of that name in a package."""
    module = None if noted.module == own else import_module(noted.module)
    if module is not None and (hasattr(module, noted.name) or not hasattr(module, "__path__")):
        return getattr(module, noted.name)
    return import_module(f"{noted.module}.{noted.name}")


class _Loader:
    """The ``__getattr__`` of a package: loads a name when it is asked for, once."""

    def __init__(self, package: dict[str, Any], names: dict[str, _Noted]) -> None:
        self.package, self.names = package, names

    def __call__(self, name: str) -> Any:
        own: str = self.package["__name__"]
        noted = self.names.get(name)
        if noted is not None:
            with section():
                found = self.package[name] = _imported(noted, own)
            return found
        if name == "__all__":  # what `import *` and `help` ask for
            return sorted(n for n in {*self.package, *self.names} if not n.startswith("_"))
        raise AttributeError(f"module {own!r} has no attribute {name!r}")
