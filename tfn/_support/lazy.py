"""Lazy imports: names of a package whose files are loaded at their first use.

    with on_demand(globals()):
        from tfn.numpy.sets import union1d as union1d

is an import statement to readers and to type checkers.  Python only records it: the first
``tfn.numpy.union1d`` loads `tfn.numpy.sets`.  Most programs use a small part of a large library,
and loading the rest is most of the time that importing the library takes.

Source: PEP 562, module ``__getattr__``; PEP 810 gives Python such statements of its own.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from threading import Lock
from typing import Any, NamedTuple, cast

from tfn._support.sections import section

_BLOCK = Lock()
"""One block at a time: `builtins.__import__` is the whole process's."""


class _Recorded(NamedTuple):
    """The module and the name of an import statement."""

    module: str
    name: str


class _Module:
    """The stand-in for a module, from which an import statement takes its names."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __getattr__(self, name: str) -> _Recorded:
        return _Recorded(self.module, name)


class on_demand:
    """Defers the imports of names in its block to the first access of each name.

    Args:
        package: the ``globals()`` of the ``__init__`` file that has the block, its only one.
    """

    def __init__(self, package: dict[str, Any]) -> None:
        self.package = package

    def __enter__(self) -> None:
        self.section = section()
        self.section.acquire()
        _BLOCK.acquire()
        self.real_import = builtins.__import__
        builtins.__import__ = cast(Any, self._import)

    def __exit__(self, *error: object) -> None:
        builtins.__import__ = self.real_import
        _BLOCK.release()
        self.section.release()
        package, order = self.package, list(self.package)
        names = {name: n for name, n in package.items() if isinstance(n, _Recorded)}
        for name in names:
            del package[name]
        package["__getattr__"] = _Loader(package, names)
        package["__dir__"] = lambda: list(dict.fromkeys([*order, *package]))

    def _import(
        self,
        name: str,
        namespace: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """The import function of Python while the block runs, also in other files and threads."""
        if namespace is not self.package:
            return self.real_import(name, namespace, local, fromlist or (), level)
        assert fromlist and not level, "a block has `from whole.path import name as name`"
        return _Module(name)


def _imported(recorded: _Recorded, own: str) -> Any:
    """The name of a module, or the module of that name in a package."""
    module = None if recorded.module == own else import_module(recorded.module)
    if module is not None and (hasattr(module, recorded.name) or not hasattr(module, "__path__")):
        return getattr(module, recorded.name)
    return import_module(f"{recorded.module}.{recorded.name}")


class _Loader:
    """The ``__getattr__`` of a package: loads a name at its first access."""

    def __init__(self, package: dict[str, Any], names: dict[str, _Recorded]) -> None:
        self.package, self.names = package, names

    def __call__(self, name: str) -> Any:
        own: str = self.package["__name__"]
        recorded = self.names.get(name)
        if recorded is not None:
            with section():
                value = self.package[name] = _imported(recorded, own)
            return value
        if name == "__all__":  # for `import *` and `help`
            return sorted(n for n in {*self.package, *self.names} if not n.startswith("_"))
        raise AttributeError(f"module {own!r} has no attribute {name!r}")


def by_name(dotted: str) -> Callable[..., Any]:
    """A function of a file that is loaded at the first call: ``by_name("tfn.x.file.function")``.

    The core so has tables of functions of its annexes, and imports none of them.
    """
    module, _, function = dotted.rpartition(".")
    return lambda *args: getattr(import_module(module), function)(*args)
