"""What --json prints: schemas that refuse, the page, each verb.  The fixture `cli` checks what all other tests print."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from fbnn_hw.cli import main, verbs
from fbnn_hw.cli._common import JSON_VERSION
from tests import schemas

ROOT = Path(__file__).parents[2]
FILES = sorted(path.name.removesuffix(".schema.json") for path in schemas.FOLDER.iterdir())


def test_every_verb_has_a_schema():
    assert sorted((*verbs(), "common")) == FILES


@pytest.mark.parametrize("name", FILES)
def test_a_schema_is_one(name):
    """By draft 2020-12; it is closed, and each key says what it means."""
    schema = json.loads((schemas.FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    described(schema.get("$defs") or schema["properties"])
    if name != "common":
        assert schema["additionalProperties"] is False and list(schema["properties"])[0] == "json_version"


def described(properties):
    for key, schema in properties.items():
        assert schema.get("description") or key in ("json_version", "error", "exit_code"), key
        held = schema
        while held:
            described(held.get("properties", {}))
            inner = [held[word] for word in ("items", "additionalProperties") if isinstance(held.get(word), dict)]
            held = inner[0] if inner else None


def test_the_version_is_that_of_the_schemas():
    assert schemas.validator("common").schema["$defs"]["json_version"]["const"] == JSON_VERSION


def test_the_page_is_what_the_schemas_say():
    command = [sys.executable, "docs/benchmarks/json_page.py", "--check"]
    assert subprocess.run(command, cwd=ROOT).returncode == 0, "run python docs/benchmarks/json_page.py"
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    assert all(f"\n## fbnn-hw {verb}\n" in page for verb in verbs()) and "| `images[].top[].logit` | integer | logit of the class |" in page


def test_what_a_schema_refuses(model, answer):
    """A key more, a key less, another type, deep inside too; an error without its exit code."""
    values = answer("inspect", model[0])
    for fault in (lambda v: v.update(more=1), lambda v: v.pop("bits"), lambda v: v.update(bits="1"), lambda v: v.pop("json_version"),
                  lambda v: v.update(json_version=3), lambda v: v["layers"][0].update(more=1), lambda v: v["layers"][-1].pop("macs"),
                  lambda v: v["encoder"].update(name=None), lambda v: v.update(error="x")):
        wrong = copy.deepcopy(values)
        fault(wrong)
        with pytest.raises(AssertionError, match="inspect --json is not what docs/json/inspect.schema.json says"):
            schemas.check("inspect", json.dumps(wrong) + "\n")


def test_verbs_on_a_checkpoint(model, answer):
    assert answer("inspect", model[0])["json_version"] == JSON_VERSION
    assert answer("evaluate", "--model", model[0], "--data", "fixture", "--images", 4, "--backend", "reference")["images"] == 4
    labelled = answer("classify", "--model", model[0], "--data", "fixture", "--images", 2, "--top", 2, "--latent")
    assert {"label", "top", "latent"} <= set(labelled["images"][0])


def test_verbs_on_a_design(model, answer, tmp_path):
    flags = "--target", "ice40", "--out", tmp_path
    generated = answer("generate", "--model", model[0], *flags)
    report = answer("report", generated["folder"])
    assert report["cycles"] == generated["estimate"]["cycles"] and Path(report["file"]).is_file()
    taught = answer("generate", "--model", model[0], *flags, "--learn", "--exemplars", 8, "--max-classes", 12)
    assert set(taught["estimate"]) - set(generated["estimate"]) == {"learning"}
    assert answer("report", taught["folder"])["layers"][-1]["number"] == len(taught["estimate"]["layers"])


def test_verbs_that_train(answer, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    quick = "--epochs", "1", "--threads", "1"
    trained = answer("train", "--model", "0.5mb", "--data", "tiny", *quick, "--out", tmp_path / "t.pt")
    again = answer("train", "--model", "0.5mb", "--data", "tiny", *quick, "--out", tmp_path / "u.pt", "--init", tmp_path / "t.pt")
    assert len(trained["history"]) == 1 and again["training"]["init"]["training"]["command"] == trained["training"]["command"]
    scenario = "--scenario", "tiny-2+2x2"
    extractor = answer("pretrain", "--model", "0.5mb", *scenario, *quick, "--out", tmp_path / "fe.pt")["checkpoint"]
    floating = answer("pretrain", "--model", "fpnn_b", *scenario, *quick, "--images", "10", "--out", tmp_path / "float.pt")
    assert floating["checkpoint"] is None
    curves = answer("cil", *scenario, *quick, "--init", extractor, "--buffer-mb", "0.05", "--curves", "--out", tmp_path / "c.json")
    assert len(curves["tasks"]) == 2


def test_lists_and_commands(cli, answer, tmp_path):
    assert "table-fpt" in answer("reproduce", "--list")["exhibits"]
    assert answer("reproduce", "figure-structure")["layers"][-1][0] == "total"
    cil = "--", *"cil --scenario tiny-2+2x2 --model 0.5mb --replay native --strategy naive".split()
    code, out, _ = cli("sweep", tmp_path, "--over", "seed", "0", "1", "--dry-run", "--json", *cil)
    assert code == 0 and len(json.loads(out)["commands"]) == 2


@pytest.mark.parametrize("verb", verbs())
def test_an_error_of_every_verb(verb, capsys):
    assert main([verb, "--no-such-flag", "--json"]) == 2
    error = schemas.check(verb, capsys.readouterr().out)
    assert list(error) == ["json_version", "error", "exit_code"] and error["exit_code"] == 2 and "--no-such-flag" in error["error"]
