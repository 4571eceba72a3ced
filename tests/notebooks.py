"""Execution of notebooks in the test process: ``python -m tests.notebooks`` stores their outputs.

A cell shows what it prints, the value of its last line unless that ends with a semicolon, and its
figure.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

NOTEBOOK = Path(__file__).parents[1] / "docs" / "tutorials" / "first_steps.ipynb"
_SHAPE = {"figsize": (6, 3.6), "dpi": 100}

Cell = dict[str, Any]
Output = dict[str, Any]


def executed(cells: list[Cell]) -> list[Cell]:
    """Return cells with their outputs, run in order in one namespace."""
    from matplotlib import pyplot

    mpl.use("agg")
    pyplot.close("all")  # figures of others
    names: dict[str, Any] = {"__name__": "__main__"}
    done, count = [], 0
    for cell in cells:
        if cell["cell_type"] == "code":
            count += 1
            outputs = _outputs("".join(cell["source"]), names, count)
            cell = {**cell, "execution_count": count, "outputs": outputs}
        done.append(cell)
    return done


def _outputs(source: str, names: dict[str, Any], count: int) -> list[Output]:
    from matplotlib import pyplot

    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), mpl.rc_context():
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    outputs: list[Output] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None and not source.rstrip().endswith(";"):
        data = {"text/plain": [repr(value)]}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = [value._repr_html_()]
        outputs.append(
            {
                "output_type": "execute_result",
                "execution_count": count,
                "data": data,
                "metadata": {},
            }
        )
    for number in pyplot.get_fignums():
        figure, picture = pyplot.figure(number), io.BytesIO()
        figure.set_size_inches(_SHAPE["figsize"])
        figure.savefig(picture, dpi=_SHAPE["dpi"], bbox_inches="tight", metadata={"Software": None})
        image = base64.b64encode(picture.getvalue()).decode()
        data = {"image/png": image, "text/plain": ["<Figure>"]}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    pyplot.close("all")
    return outputs


def read(file: Path = NOTEBOOK) -> dict[str, Any]:
    """Return a stored notebook."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Run the notebook and store its outputs."""
    notebook = read()
    notebook["cells"] = executed(notebook["cells"])
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    NOTEBOOK.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
