"""README.md and the pages beside it say what checkpoints, models, records and commands say."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from string import Template

import pytest

from fbnn_hw.base.errors import UsageError
from fbnn_hw.ir.models import MODELS, build

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "benchmarks"))

import readme_commands  # noqa: E402
import shown  # noqa: E402

README = (ROOT / "README.md").read_text(encoding="utf-8")
MODELS_PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


def test_the_tables_of_builds_and_checkpoints_are_up_to_date():
    command = [sys.executable, "docs/benchmarks/readme.py", "--check"]
    assert subprocess.run(command, cwd=ROOT).returncode == 0, "run python docs/benchmarks/readme.py"


@pytest.mark.parametrize("page", [pytest.param(path, marks=[pytest.mark.slow] * (path.name == "README.md")) for path in shown.PAGES],
                         ids=lambda path: path.name)
def test_the_output_that_is_shown_is_that_of_today(page):
    assert shown.today(page) == page.read_text(encoding="utf-8"), "run python docs/benchmarks/shown.py"


def test_which_lines_of_an_output_are_shown():
    page = "A.\n\n    fbnn-hw a   # why\n    fbnn-hw b\n\n<!-- shown: one | the other -->\n\n    old\n\n<!-- end -->\nB.\n"
    printed = {"fbnn-hw a": "x\none 1\none 2\ny\nz\n", "fbnn-hw b": "w\nthe other\n"}
    expected = page.replace("    old\n", "    ...\n    one 1\n    one 2\n    ...\n    the other\n")
    assert shown.updated(page, printed.get) == expected == shown.updated(expected, printed.get)
    assert len(shown.BLOCK.findall(README)) == README.count("<!-- shown: ") == 2


def test_the_first_screen_is_short():
    """At most 200 lines, and cells of tables at most 60 characters as they are rendered."""
    assert len(README.splitlines()) <= 200
    rows = [row for row in README.splitlines() if row.startswith("|")]
    cells = [re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", cell).strip() for row in rows for cell in row.strip("|").split("|")]
    assert len(cells) > 50 and [cell for cell in cells if len(cell) > 60] == []


def test_the_bits_of_the_models():
    rows = re.findall(r"^\| `(\w[\w.-]*)` \| [\w/]+ \| ([\d,]+) \| ([\d,]+) \| ([\d,.]+) \|$", MODELS_PAGE, re.MULTILINE)
    assert {row[0] for row in rows} == set(MODELS)
    for name, ten, hundred, mmac in rows:
        assert (ten, hundred) == tuple(f"{build(name, k).weight_bits():,}" for k in (10, 100)), name
        assert mmac == f"{build(name).macs() / 1e6:,.1f}", name


def test_the_commands_of_the_trainings_parse():
    """Each command of docs/results/training.md has verbs and flags that exist; nothing is trained."""
    from fbnn_hw import cli

    text = (ROOT / "docs/results/training.md").read_text(encoding="utf-8")
    variables = dict(re.findall(r'^    (\w+)="(.*)"$', text, re.MULTILINE))
    lines = re.findall(r"^    (?:\(\d+\) )?fbnn-hw (.*)$", text, re.MULTILINE)
    assert len(lines) >= 30
    for line in lines:
        verb, *words = shlex.split(Template(line).substitute(variables))
        cli.parser(verb).parse_args(words)


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_a_page_is_not_too_long(path):
    """But json.md, which is made from the schemas, and the changelog."""
    assert path.name in ("json.md", "changelog.md") or len(path.read_text(encoding="utf-8").splitlines()) <= 350


def faults(part):
    """What is wrong with one command of a line: a verb, a flag or a file that does not exist; UsageError where it does not parse."""
    from fbnn_hw import cli

    program, *words = shlex.split(part.partition(" > ")[0])
    if program == "fbnn-hw":
        cli.parser(words[0]).parse_args(words[1:])
    paths = [word.partition("::")[0] for word in words if re.match(r"(docs/benchmarks|tests|sim)(/|$)", word)]
    if program.startswith("python") and "-m" in words and (module := words[words.index("-m") + 1]).startswith("tests."):
        found = ROOT / (module.replace(".", "/"))
        paths += [] if (found / "__main__.py").exists() else [f"{module.replace('.', '/')}.py"]
    wrong = [path for path in paths if not (ROOT / path).exists()]
    for path in set(paths) - set(wrong):
        source = (ROOT / path).read_text(encoding="utf-8") if path.startswith("docs/") else ""
        wrong += [word for word in words if source and word.startswith("--") and f'"{word.partition("=")[0]}"' not in source]
    return wrong


def test_every_command_is_known_and_parses(tmp_path, monkeypatch):
    """Whatever starts with a program's name in README.md and in docs/; the verbs, flags and files of the lines exist."""
    (tmp_path / "pictures" / "cat").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    unfinished, own = ("names the verb", "a reader completes it"), re.compile(r" \w+:[A-Z]")  # a program of the reader's, module:Name
    found = readme_commands.everything()
    pages = {page: (ROOT / page).read_text(encoding="utf-8") for page in readme_commands.PAGES}
    others = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}
    assert len(found) >= 300 and {command.page for command in found} == set(readme_commands.PAGES)
    assert {page for page, text in others.items() if readme_commands.LINE.search(text)} <= set(readme_commands.PAGES)
    for command in found:
        assert command.text in pages[command.page]
        assert (command.kind == "skip") == bool(command.why)
        for part in command.text.split(" && "):
            assert command.why in unfinished or own.search(part) or not faults(part), (command.page, part, faults(part))
    lines = {line.strip().removeprefix("(").split(") ")[-1].split("  #")[0].strip() for text in pages.values() for line in text.splitlines()
             if re.match(r" {4}(\(\w\) )?(fbnn-hw|pip|python3?|pytest) ", line)}
    assert lines <= {command.text for command in found}


def test_a_command_with_a_mistake_is_found():
    assert not faults("python docs/benchmarks/readme_commands.py --only simulate") and not faults("python -m tests.corpus")
    assert faults("python docs/benchmarks/readme_commands.py --onyl simulate") == ["--onyl"]
    assert faults("pytest -n 0 tests/test_readmes.py::test_a") == ["tests/test_readmes.py"]
    assert faults("python -m tests.corpora") == ["tests/corpora.py"]
    with pytest.raises(UsageError, match="unknown argument --frames"):
        faults("fbnn-hw generate --frames 3")


@pytest.mark.parametrize("folder", [".", "docs", "docs/results", "boards", "driver", "sim"])
def test_verbs_and_flags_in_sentences(folder):
    """`fbnn-hw VERB` and `VERB --flag` name verbs and flags that exist; the changelog has those of earlier versions too."""
    from fbnn_hw import cli

    verbs, wrong = set(cli.verbs()), []
    for page in sorted(path for path in (ROOT / folder).glob("*.md") if path.name != "changelog.md"):
        for code in re.findall(r"`([^`]+)`", re.sub(r"^ {4}.*$", "", page.read_text(encoding="utf-8"), flags=re.M)):
            match = re.fullmatch(r"(fbnn-hw )?([a-z][a-z-]*)( [^'\"]*)?(['\"].*)?", " ".join(code.split()))
            if not match or match[2] in ("help", "learned") or not match[1] and match[2] not in verbs:  # a snapshot begins with `learned`
                continue
            if match[2] not in verbs:
                wrong.append((page.name, code))
                continue
            known = cli.parser(match[2])._option_string_actions
            wrong += [(page.name, code) for flag in re.findall(r"(?<= )--[a-z][a-z0-9-]*", match[3] or "") if flag not in known]
    assert wrong == []


def test_what_is_done_with_a_command():
    page = ("    (b) fbnn-hw generate --model a.pt --target ice40    # then: fbnn-hw build --board icebreaker\n"
            "Text with `fbnn-hw doctor` and `fbnn_hw`.\n    fbnn-hw flash DIR --board icebreaker\n    fbnn-hw learn x.png --port PORT\n"
            "    fbnn-hw selftest --port auto\n    fbnn-hw sweep runs --over seed 0 1 2 -- cil --init x.pt --epochs 8\n"
            "    fbnn-hw studio --port auto\n")
    found = readme_commands.commands("p", page)
    assert [(command.kind, command.text) for command in found] == [
        ("run", "fbnn-hw generate --model a.pt --target ice40"), ("long", "fbnn-hw build --board icebreaker"), ("run", "fbnn-hw doctor"),
        ("dry", "fbnn-hw flash DIR --board icebreaker"), ("skip", "fbnn-hw learn x.png --port PORT"),
        ("long", "fbnn-hw selftest --port auto"), ("long", "fbnn-hw sweep runs --over seed 0 1 2 -- cil --init x.pt --epochs 8"),
        ("serve", "fbnn-hw studio --port auto")]
    assert found[5].shell == "fbnn-hw selftest --board virtual"
    assert found[6].shorter.shell == "fbnn-hw sweep runs --over seed 0 -- cil --init x.pt --epochs 1"
    for line, shorter in (("fbnn-hw pretrain --model 3mb --out fe.pt",
                           "fbnn-hw pretrain --model 3mb --out fe.pt --epochs 1 --images 50"),
                          ("for n in 0 1 2; do fbnn-hw cil --epochs 20 --seed $n; done",
                           "for n in 0; do fbnn-hw cil --epochs 1 --seed $n; done"),
                          ("fbnn-hw pretrain --epochs 10 --warmup 1", "fbnn-hw pretrain --epochs 1 --warmup 0"),
                          ("fbnn-hw reproduce table-fpt --init fe.pt --run",
                           "fbnn-hw reproduce table-fpt --init fe.pt --flags '--epochs 1 --images 10' --run"),
                          ("fbnn-hw reproduce table-fpt --flags '--epochs 20 --c 0.1' --run",
                           "fbnn-hw reproduce table-fpt --flags '--epochs 1 --images 10 --c 0.1' --run"),
                          ("fbnn-hw reproduce table-fpt --scenario x --seeds 0 1 --run",
                           "fbnn-hw reproduce table-fpt --scenario x --seeds 0 --flags '--epochs 1' --run")):
        assert readme_commands.Command("", line, "long", "").shorter.text == shorter
    assert found[7].shell == "timeout --signal INT 20 fbnn-hw studio --board virtual" and found[7].codes == (124,)
    assert found[3].shell.endswith(" --board icebreaker --dry-run") and "DIR" not in found[3].shell
    assert all(command.codes == (0,) for command in found[:7])
    assert readme_commands.commands("p", "`fbnn-hw doctor --board icebreaker`")[0].codes == (0, 5)
    with pytest.raises(KeyError, match="no rule of readme_commands.py knows it"):
        readme_commands.commands("p", "    pip install something\n")


def test_the_index_names_every_page_and_program():
    docs, sim = ((ROOT / folder / "README.md").read_text(encoding="utf-8") for folder in ("docs", "sim"))
    for folder, pattern, index in (("docs", "*.md", docs), ("docs/results", "*.md", docs), ("docs/benchmarks", "*.py", docs),
                                   ("docs/examples", "*.py", docs), ("sim", "*.py", sim)):
        for path in (ROOT / folder).glob(pattern):
            assert path.name in ("README.md", "__init__.py") or path.name in index, path.relative_to(ROOT)


def anchors(page):
    """Anchors of a page's headings, as forges make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere():
    pages = (ROOT / "README.md", *(path for folder in ("docs", "sim", "boards", "rtl_out") for path in (ROOT / folder).rglob("*.md")))
    for page in pages:
        for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8")):
            target = page.parent / link if link else page
            assert "://" in link or target.exists(), f"{page.relative_to(ROOT)}: {link}"
            if anchor and target.suffix == ".md":
                assert anchor in anchors(target), f"{page.relative_to(ROOT)}: {link}#{anchor}"
