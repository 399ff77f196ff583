"""Writes the pages of the Python API from the docstrings, by pdoc.

    pip install '.[train,docs]'
    python docs/benchmarks/api_pages.py FOLDER      one page a module, and an index with a search field
"""

import argparse
import importlib
import pkgutil
import re
import sys
from pathlib import Path

import fbnn_hw

LEFT_OUT = r"fbnn_hw\.(__main__|cli|emit\.bench|.*\b_\w+)(\..*)?"
"""A program, the verbs, which `fbnn-hw --help` explains, what is copied into folders of designs, and private modules; as a pattern."""


def modules():
    """Names of the documented modules, sorted."""
    names = [module.name for module in pkgutil.walk_packages(fbnn_hw.__path__, "fbnn_hw.", onerror=lambda name: None)]
    return sorted(name for name in ("fbnn_hw", *names) if not re.fullmatch(LEFT_OUT, name))


def with_members(numpy):
    """pdoc's reader of docstrings, which also knows the heading Members: ports, written as attributes are."""
    def read(text):
        attributes = re.sub(r"^Members\n-+$", "Attributes\n----------", text, flags=re.MULTILINE)
        return numpy(text) if attributes == text else numpy(attributes).replace("###### Attributes", "###### Members")

    return read


def write(folder):
    """The pages of all modules, below `folder`."""
    import pdoc

    pdoc.docstrings.numpy = with_members(pdoc.docstrings.numpy)
    for module in map(importlib.import_module, modules()):
        for name in getattr(module, "__all__", ()):  # what a package looks up when it is first used
            setattr(module, name, getattr(module, name))
    shown = {name.split(".")[1] for name in modules() if "." in name}
    fbnn_hw.__all__ = [*fbnn_hw.__all__, *sorted(shown - set(fbnn_hw.__all__))]
    pdoc.render.configure(docformat="numpy", show_source=False, footer_text=f"fbnn-hw {fbnn_hw.__version__}")
    pdoc.pdoc("fbnn_hw", f"!{LEFT_OUT}$", output_directory=Path(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", help="where the pages are written")
    write(parser.parse_args().folder)


if __name__ == "__main__":
    sys.exit(main())
