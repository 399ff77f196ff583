"""Writes the tables of docs/json.md from the schemas docs/json/*.schema.json.

    python docs/benchmarks/json_page.py            writes docs/json.md
    python docs/benchmarks/json_page.py --check    exit code 1 where that would change it
"""

import argparse
import json
import sys
from pathlib import Path

import marked

DOCS = Path(__file__).parents[1]
PAGE, SCHEMAS = DOCS / "json.md", DOCS / "json"
BEGIN = "<!-- keys: docs/benchmarks/json_page.py -->"
COMMON = "common"
EVERYWHERE = ("json_version", "error", "exit_code")
"""Keys of every verb, which the page has once."""


def read(name):
    """The schema of a verb, or the one that they share; where it refers to a key of its own, that key's schema stands there."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    return _filled(schema, schema.get("properties", {}))


def _filled(value, keys):
    if isinstance(value, dict):
        if (place := str(value.get("$ref", ""))).startswith("#/properties/"):
            value = keys[place.rsplit("/", 1)[1]] | {name: text for name, text in value.items() if name != "$ref"}
        return {name: _filled(part, keys) for name, part in value.items()}
    return [_filled(part, keys) for part in value] if isinstance(value, list) else value


def shared(schema):
    """The name of the shared definition that a schema refers to, or None."""
    return schema["$ref"].rsplit("/", 1)[1] if "$ref" in schema else None


def kind(schema):
    """The type of a value, in words; a shared object is a link to its section."""
    if name := shared(schema):
        return f"[{name}](#{name})"
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema.get("enum", [schema.get("const")]))
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    inner = {"array": schema.get("items"), "object": schema.get("additionalProperties")}
    return " or ".join(f"{name} of {kind(inner[name])}" if isinstance(inner.get(name), dict) else name for name in types)


def inside(schema, path):
    """(schema, path) of what an array or a map holds, however deep."""
    while shared(schema) is None:
        if isinstance(schema.get("items"), dict):
            schema, path = schema["items"], f"{path}[]"
        elif isinstance(schema.get("additionalProperties"), dict) and not schema.get("properties"):
            schema, path = schema["additionalProperties"], f"{path}.*"
        else:
            break
    return schema, path


def rows(schema, prefix=""):
    """(path, type, meaning) of each key of an object, those of the objects in it below it."""
    for name, value in schema.get("properties", {}).items():
        path = prefix + name
        if path not in EVERYWHERE:
            yield path, kind(value), value.get("description", "")
            held, place = inside(value, path)
            yield from rows(held, f"{place}.")
    if schema.get("properties") and isinstance(schema.get("additionalProperties"), dict):
        yield f"{prefix}*", kind(schema["additionalProperties"]), schema["additionalProperties"].get("description", "")


def table(lines):
    return ["", "| key | type | meaning |", "|---|---|---|", *(f"| `{path}` | {text} | {meaning} |" for path, text, meaning in lines), ""]


def section(heading, schema):
    """A heading, the schema's description and the table of its keys; of a map, that of the objects in it."""
    held, place = inside(schema, "")
    lines = list(rows(held, f"{place}." if place else ""))
    return [heading, "", schema["description"], *(table(lines) if lines else [""])]


def content():
    """The lines of the generated part: links to the sections, the keys of all verbs, each verb, the shared objects."""
    shared_ones = read(COMMON)["$defs"]
    verbs = sorted(path.name.removesuffix(".schema.json") for path in SCHEMAS.glob("*.schema.json"))
    lines = ["", *(f"- [{name}](#fbnn-hw-{name})" for name in verbs if name != COMMON), "- [shared objects](#shared-objects)",
             "", "## Every verb", *table((name, kind(shared_ones[name]), shared_ones[name]["description"]) for name in EVERYWHERE)]
    for name in verbs:
        if name != COMMON:
            lines += section(f"## fbnn-hw {name}", read(name))
    lines += ["## Shared objects", ""]
    for name, schema in shared_ones.items():
        if name not in EVERYWHERE:
            lines += section(f"### {name}", schema)
    return lines


def updated(text):
    """The page with the tables of now."""
    return marked.replaced(text, BEGIN, content())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    text = PAGE.read_text(encoding="utf-8")
    new = updated(text)
    if check:
        return int(new != text)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
