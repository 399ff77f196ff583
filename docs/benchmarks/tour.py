"""Runs the cells of docs/tour.ipynb in one process and writes what they printed into the notebook.

    python docs/benchmarks/tour.py             runs it in a temporary folder and rewrites the outputs
"""

import argparse
import contextlib
import io
import json
import os
import re
import tempfile
from pathlib import Path

NOTEBOOK = Path(__file__).parents[1] / "tour.ipynb"


def cells(notebook):
    """The code cells of a notebook: (source, recorded output) pairs of texts."""
    return [("".join(cell["source"]), "".join("".join(output["text"]) for output in cell["outputs"]))
            for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook, names=None):
    """Run the code cells in order in one namespace, in the current folder; returns what each printed, a list of texts.

    names: the namespace, a dict, for what the caller wants to look at afterwards.
    """
    names, printed = {} if names is None else names, []
    for number, (source, _) in enumerate(cells(notebook), start=1):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(source, f"tour.ipynb, cell {number}", "exec"), names)
        printed.append(output.getvalue())
    return printed


def shape(text):
    """A cell's output without its numbers, dots, answers and bounds, which a training on another processor or the planner may change."""
    text = re.sub(r"(?<=before the lesson: ).*|(?<=bound by ).*", "0", re.sub(r" *\d[\d,.]*", " 0", text))
    return re.sub(r"[#·]", "·", text)


def read():
    """The notebook, as the object that its JSON holds."""
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    notebook = read()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        printed = run(notebook)
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            text, number = printed[number], number + 1
            cell["execution_count"] = number
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}] if text else []
    partial = NOTEBOOK.with_suffix(".partial")
    partial.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(partial, NOTEBOOK)


if __name__ == "__main__":
    main()
