"""The directive ``command-help``: what a command prints for ``--help``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]


class CommandHelp(SphinxDirective):
    """Show the help of one command, for example ``audit-check`` or ``audit-check lock``."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Run the command in a process of its own."""
        command, *words = self.arguments
        module = f"audit.cli.{command.removeprefix('audit-')}"
        code = f"import sys; sys.argv[0] = {command!r}; import {module} as m; m.main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *words, "--help"],
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "88", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        return [nodes.literal_block(done.stdout, done.stdout, language="text")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
