"""The JSON schemas docs/json/VERB.schema.json, and what a verb printed against them."""

import json
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "json"


@cache
def validator(verb):
    """The validator of a verb's objects."""
    from jsonschema import Draft202012Validator
    from referencing import Registry, Resource

    contents = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.schema.json")}
    registry = Registry().with_resources((name, Resource.from_contents(content)) for name, content in contents.items())
    return Draft202012Validator(contents[f"{verb}.schema.json"], registry=registry)


def check(verb, text):
    """The object that a verb printed with --json; AssertionError where it is not one line, or not what its schema says."""
    assert text.count("\n") == 1, text
    values = json.loads(text)
    faults = [f"{error.json_path}: {error.message[:300]}" for error in validator(verb).iter_errors(values)]
    assert not faults, f"{verb} --json is not what docs/json/{verb}.schema.json says: {faults}"
    assert next(iter(values)) == "json_version"
    return values
