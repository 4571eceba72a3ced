"""Links to the reference: from types in signatures, and from names in pages.

A room exports `audit.NoisySGD`, but the class says that it lives in `audit.mechanism.noisy_sgd`.
References to the latter lead to the former where that has a page. A name in code quotes, such as
``audit.NoisySGD``, links to its page by itself.
"""

from __future__ import annotations

import functools
import inspect
import re
from contextlib import suppress
from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def home(documented: str) -> str:
    """Return where an object lives: ``audit.mechanism.noisy_sgd.NoisySGD``, for example."""
    parts = documented.split(".")
    for cut in range(len(parts), 0, -1):
        with suppress(ImportError, AttributeError):
            thing: Any = import_module(".".join(parts[:cut]))
            for part in parts[cut:]:
                thing = getattr(thing, part)
            return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}"
    return documented


def homes(env: BuildEnvironment) -> dict[str, str]:
    """Map where things live to the names under which they are documented."""
    stored: dict[str, str] | None = getattr(env, "audit_homes", None)
    if stored is None:
        kinds = ("class", "function", "exception", "data", "attribute")
        objects = env.domains.python_domain.objects
        stored = {home(name): name for name, entry in objects.items() if entry.objtype in kinds}
        env.audit_homes = stored  # type: ignore[attr-defined]
    return stored


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contents: nodes.Element
) -> nodes.Element | None:
    """Resolve a reference to where something lives, or to its last name where that is unique."""
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"]).removesuffix("()")
    domain = env.domains.python_domain
    name: Any = homes(env).get(target)
    if name is None and "." not in target and target[:1].isupper():
        ends = {n for n in domain.objects if n.rpartition(".")[2] == target}
        name = ends.pop() if len(ends) == 1 else None
    if name is None:
        return None
    return domain.resolve_xref(env, str(node["refdoc"]), app.builder, "obj", name, node, contents)


LITERAL = re.compile(r"(``.+?``|`[^`]+`)")


def plain_bars(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Keep ``|x|`` in docstrings from being read as a substitution of reStructuredText.

    Data without a docstring of its own gets none, rather than that of its type.
    """
    if (
        what in ("data", "attribute")
        and "\n".join(lines).strip() == inspect.cleandoc(type(thing).__doc__ or "").strip()
    ):
        lines.clear()
    margin: int | None = None  # of the paragraph that a literal block belongs to
    for place, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if margin is not None and line.strip() and indent <= margin:
            margin = None
        if margin is None and not line.lstrip().startswith(">>>"):
            parts = LITERAL.split(line)
            parts[::2] = [part.replace("|", "\\|") for part in parts[::2]]
            lines[place] = "".join(parts)
            if line.rstrip().endswith("::"):
                margin = indent


NAME = re.compile(r"(audit(?:\.\w+)+)(?:\(.*\))?")


def link_names(app: Sphinx, doctree: nodes.document) -> None:
    """Make a reference of each public name that stands in code quotes, but in no heading."""
    for literal in list(doctree.findall(nodes.literal)):
        found = NAME.fullmatch(literal.astext())
        if not found or isinstance(literal.parent, (nodes.title, nodes.reference, pending_xref)):
            continue
        literal.replace_self(
            pending_xref(
                "",
                literal.deepcopy(),
                refdomain="py",
                reftype="obj",
                reftarget=found[1],
                refdoc=app.env.docname,
                refwarn=False,
            )
        )


def forget(app: Sphinx, env: BuildEnvironment) -> None:
    """Names are collected anew in each build."""
    if hasattr(env, "audit_homes"):
        del env.audit_homes


def as_functions(app: Sphinx) -> None:
    """Show the methods of the registry that `audit.bounds` exports as the functions that they are.

    Sphinx drops the first parameter of what it takes for a method.
    """
    import audit.bounds as room

    for name in room.__all__:
        method = getattr(room, name)
        if inspect.ismethod(method):

            @functools.wraps(method)
            def function(*args: Any, _method: Any = method, **options: Any) -> Any:
                return _method(*args, **options)

            function.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
            setattr(room, name, function)


def setup(app: Sphinx) -> dict[str, bool]:
    """Resolve what Sphinx itself cannot."""
    app.connect("builder-inited", as_functions, priority=1)
    app.connect("doctree-read", link_names)
    app.connect("autodoc-process-docstring", plain_bars)
    app.connect("missing-reference", resolve)
    app.connect("env-updated", forget)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
