"""Runs the notebook of the documentation in this process, without Jupyter.

``python -m tests.support.notebooks`` makes the data of the demo, and stores the outputs in the notebook.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from docs.notebook_page import NOTEBOOK
from publisher.cli.main import cli


def read_cells(path: Path = NOTEBOOK) -> list[dict[str, Any]]:
    """The cells with code."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def shown(cell: dict[str, Any]) -> str:
    """The output of a cell in the notebook."""
    return "".join(line for output in cell["outputs"] for line in output["text"])


def run_cells(cells: list[dict[str, Any]]) -> list[str]:
    """Runs cells one after the other in the working directory; returns the text that each of them prints."""
    names: dict[str, Any] = {"__name__": "__main__"}
    texts = []
    for number, cell in enumerate(cells, 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        texts.append(printed.getvalue())
    return texts


def store_outputs(path: Path = NOTEBOOK) -> None:
    """Makes the data of the demo, runs the notebook beside them, and stores its outputs."""

    notebook = json.loads(path.read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with contextlib.redirect_stdout(sys.stderr):
            cli.main(["demo"], standalone_mode=False)
        for number, (cell, text) in enumerate(zip(cells, run_cells(cells), strict=True), 1):
            lines = text.splitlines(keepends=True)
            output = {"name": "stdout", "output_type": "stream", "text": lines}
            cell |= {"execution_count": number, "outputs": [output] if text else []}
        os.chdir("/")
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    store_outputs()
