"""The package under a second name, for projects that have a module ``audit`` of their own.

Where ``audit`` is this package, ``noisy_sgd_audit`` and its submodules are the same module objects
as ``audit`` and its submodules. Where another module of that name comes first on ``sys.path`` or is
imported already, the package is loaded under this name alone and leaves the other ``audit`` as it
is: then imports of ``audit`` inside the package are read as imports of ``noisy_sgd_audit``.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from audit import *  # noqa: F403

_HERE = Path(__file__).resolve().parent
_PACKAGE = _HERE.with_name("audit") / "__init__.py"
_EXTRAS = {"audit_dimensions", "audit_panel"}  # packages beside it that import it


def _is_shadowed() -> bool:
    """Tell whether ``import audit`` gives or would give another module than this package."""
    loaded = sys.modules.get("audit")
    spec = getattr(loaded, "__spec__", None) if loaded else find_spec("audit")
    return spec is None or spec.origin is None or Path(spec.origin).resolve() != _PACKAGE


class _Same(SourceFileLoader):
    """Give a module of ``audit``; nothing is executed twice."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self._module = importlib.import_module(_renamed(spec.name, __name__, "audit"))
        self._spec = self._module.__spec__
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has put the alias's in its place


class _Renaming(SourceFileLoader):
    """Execute a module of the package with ``audit`` in its imports read as this package's name."""

    def get_code(self, fullname: str) -> CodeType:
        # the cache beside the file is that of the unchanged imports
        path = self.get_filename(fullname)
        tree = _Imports().visit(ast.parse(self.get_data(path), path))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class _Imports(ast.NodeTransformer):
    """Rename ``audit`` in import statements; the names that they bind stay."""

    def visit_Import(self, node: ast.Import) -> ast.Import:
        names = []
        for alias in node.names:
            name = _renamed(alias.name, "audit", __name__)
            names.append(ast.alias(name, alias.asname))
            if name != alias.name and alias.asname is None:
                names.append(ast.alias(__name__, "audit"))
        return ast.copy_location(ast.Import(names), node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.level == 0 and node.module:
            node.module = _renamed(node.module, "audit", __name__)
        return node


def _renamed(module: str, old: str, new: str) -> str:
    """Return the name of a module with its top-level package replaced, if that is ``old``."""
    top, dot, rest = module.partition(".")
    return new + dot + rest if top == old else module


class _Submodules(MetaPathFinder):
    """Find the submodules of ``noisy_sgd_audit``."""

    def __init__(self, loader: type[SourceFileLoader]) -> None:
        self._loader = loader

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        extra = self._loader is _Renaming and fullname.partition(".")[0] in _EXTRAS
        if not extra and not fullname.startswith(f"{__name__}."):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None:
            return None
        loader = self._loader(fullname, spec.origin)
        return spec_from_file_location(fullname, spec.origin, loader=loader)


def _install() -> None:
    """Put the package in the place of this module."""
    shadowed = _is_shadowed()
    sys.meta_path.insert(0, _Submodules(_Renaming if shadowed else _Same))
    if not shadowed:
        sys.modules[__name__] = importlib.import_module("audit")
        return
    loader = _Renaming(__name__, str(_PACKAGE))
    spec: Any = spec_from_file_location(__name__, _PACKAGE, loader=loader)
    package = sys.modules[__name__] = module_from_spec(spec)
    loader.exec_module(package)


_install()
