"""`softmargin bench`: the quick race, the suites of the benchmarks folder, and the page they write."""

import json
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from softmargin.bench.suites import SUITES
from softmargin.cli.choices import BENCHES
from softmargin.cli.main import main
from softmargin.report import Section, build_page, image, machine_facts, preformatted, table

SCRIPT = """
import sys
from pathlib import Path

if "--help" in sys.argv:
    print("usage: x.py [-h] [--repeats N] {option}\\n\\noptions:\\n  -h  see also --nothing")
    sys.exit(0)
folder = Path(next(word for word in sys.argv if word.endswith(".jsonl"))).parent
(folder / "curve.png").write_bytes(Path({png!r}).read_bytes())
print("asked for", sys.argv[1:])
sys.exit({code})
"""


def png(path):
    """Write the smallest PNG there is."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b""))
    return path


@pytest.fixture
def folder(tmp_path):
    """Return a benchmarks folder whose scripts only say what they were asked for."""
    path = tmp_path / "benchmarks"
    (path / "tools").mkdir(parents=True)
    (path / "tools" / "common.py").touch()
    picture = str(png(tmp_path / "one.png"))
    for script in {script.words[0] for suite in SUITES.values() for script in suite}:
        (path / script).parent.mkdir(exist_ok=True)
        option = "[--cap CAP | --quick]" if script != "papers/ball_figures.py" else "[--rows ROWS [ROWS ...]]"
        (path / script).write_text(SCRIPT.format(png=picture, code=0, option=option))
    return path


def test_names_of_suites_are_those_of_the_room():
    assert ("quick", *SUITES) == BENCHES


def test_quick_race_is_judged_and_written_down(tmp_path, capsys):
    assert main(["bench", "quick", "-o", str(tmp_path), "--gaps", "0.1", "--repeats", "1", "--json", "--quiet"]) == 0
    printed = json.loads(capsys.readouterr().out)
    machine, *rows = (json.loads(line) for line in (tmp_path / "quick.jsonl").read_text().splitlines())
    assert machine["kind"] == "machine"
    assert machine["versions"]["softmargin"]
    finished = [row for row in rows if row["seconds"] is not None]
    assert len({(row["problem"], row["data"]) for row in finished}) == len(printed["rows"]) == 5
    assert all(row["residual"] <= row["gap"] for row in finished)
    assert {row["contender"] for row in finished} > {"softmargin"}
    assert printed["geometric_mean"] > 0.0
    page = (tmp_path / "quick.html").read_text()
    assert "Crammer-Singer SVM" in page
    assert 'src="http' not in page


def asked_for(words, capsys):
    """Run a suite and return the words that its scripts were given, and the notes."""
    assert main(words) == 0
    printed = capsys.readouterr()
    return [line for line in printed.out.splitlines() if line.startswith("asked for")], printed.err


def test_suite_runs_its_scripts_and_puts_all_on_one_page(folder, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["bench", "balls", "-o", str(out), "--benchmarks", str(folder), "--more=--repeats", "--more=3"]
    asked, notes = asked_for(words, capsys)
    assert len(asked) == len(SUITES["balls"])
    assert all(line.endswith("'--repeats', '3']") for line in asked)
    assert str(out / "l1_ball.jsonl") in notes
    assert "{out}" not in notes
    page = (out / "balls.html").read_text()
    assert "trace_ball" in page
    assert "data:image/png;base64," in page


def test_scripts_are_told_what_they_know(folder, tmp_path, capsys):
    words = ["bench", "balls", "-o", str(tmp_path), "--benchmarks", str(folder), "--quiet"]
    more = ["--more=--cap=3", "--more=--rows", "--more=-5", "--more=6"]
    asked, _ = asked_for([*words, *more], capsys)
    assert ["'--cap=3'" in line for line in asked] == [True, True, False, True]
    assert ["'--rows', '-5', '6'" in line for line in asked] == [False, False, True, False]


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (
            ["--more=--nothing"],
            "no script of this suite knows --nothing; --more takes --cap, --quick, --repeats, --rows",
        ),
        (["--more=3"], "--more=3 comes first, but is no option"),
    ],
)
def test_words_for_no_script_are_one_line(folder, tmp_path, capsys, more, complaint):
    assert main(["bench", "balls", "-o", str(tmp_path), "--benchmarks", str(folder), *more]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert complaint in error


def test_page_of_a_suite_gets_its_tables_pictures_and_machine(folder, tmp_path):
    out, page = tmp_path / "out", tmp_path / "docs" / "balls.md"
    page.parent.mkdir()
    text = "# Balls\n\n{}\nStays.\n\n![curve](curve.png) ![other](other.png)\n\n{}\n"
    page.write_text(
        text.format(*(f"<!-- begin {name} -->\nold\n<!-- end {name} -->" for name in ("machine", "l1_ball")))
    )
    out.mkdir()
    facts = {"kind": "machine", **machine_facts(), "source": "abc", "commit": "1234567"}
    idle = {**facts, "commit": "nothing measured"}
    rows = [idle, facts, {"kind": "measurement"}, idle]
    written = "".join(json.dumps(row) + "\n" for row in rows)
    (out / "known.jsonl").write_text(written + '{"kind": "measurem')  # a run was killed
    (out / "later.jsonl").write_text(written.replace("1234567", "7654321"))
    (out / "same.jsonl").write_text(written)
    words = ["bench", "balls", "-o", str(out), "--benchmarks", str(folder), "--page", str(page), "--quiet"]
    assert main(words) == 0
    first = page.read_text()
    assert "old" not in first
    assert "nothing measured" not in first
    assert [line.partition(", on ")[0] for line in first.splitlines() if line.startswith("- ")] == [
        f"- {names}: measured on {facts['date'][:10]} at commit {commit}"
        for names, commit in (("known, same", "1234567"), ("later", "7654321"))
    ]
    assert "'--benchmark', 'l1_ball'" in first
    assert "Stays." in first
    assert (page.parent / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert not (page.parent / "other.png").exists()
    assert main(words) == 0
    assert page.read_text() == first


def test_page_that_asks_for_an_unknown_block_is_left_alone(folder, tmp_path, capsys):
    page = tmp_path / "balls.md"
    page.write_text("<!-- begin nothing -->\n<!-- end nothing -->\n")
    words = ["bench", "balls", "-o", str(tmp_path), "--benchmarks", str(folder), "--page", str(page), "--quiet"]
    assert main(words) == 1
    assert "no result for the blocks nothing" in capsys.readouterr().err
    assert page.read_text() == "<!-- begin nothing -->\n<!-- end nothing -->\n"


def test_every_result_of_a_suite_has_its_place_on_its_pages():
    results = Path(__file__).parents[2] / "docs" / "results"
    if not results.is_dir():
        pytest.skip("no docs folder beside the tests")
    listed = re.findall(r"^\| `([\w-]+)` \| (.*?) \|", (results / "index.md").read_text(), re.MULTILINE)
    pages = {suite: re.findall(r"\(([\w-]+\.md)\)", links) for suite, links in listed if suite in SUITES}
    assert pages.keys() == SUITES.keys()
    for suite, names in pages.items():
        marked = [re.findall("<!-- begin (.*) -->", (results / name).read_text()) for name in names]
        assert all("machine" in blocks for blocks in marked)
        # Where scripts show what the others measured, the page has theirs alone.
        shown = {script.block for script in SUITES[suite] if not script.measures}
        shown = shown or {script.block for script in SUITES[suite]}
        assert {block for blocks in marked for block in blocks} - {"machine"} == shown


def test_what_shows_results_is_not_told_how_to_measure(folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["bench", "peers", "-o", str(out), "--benchmarks", str(folder), "--more=--cap=3", "--quiet"]) == 0
    asked = capsys.readouterr().out.splitlines()
    assert ["--cap=3" in line for line in asked] == [script.measures for script in SUITES["peers"]]
    assert not SUITES["peers"][-1].measures


def test_every_script_understands_the_words_of_its_suite(tmp_path):
    scripts = Path(__file__).parents[2] / "benchmarks"
    if not scripts.is_dir():
        pytest.skip("no benchmarks folder beside the tests")
    asked = [[word.format(out=tmp_path) for word in script.words] for suite in SUITES.values() for script in suite]
    code = (
        "import importlib, json, sys\n"
        "for name, *words in json.loads(sys.argv[1]):\n"
        "    importlib.import_module(name.removesuffix('.py').replace('/', '.')).parser().parse_args(words)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(asked)], cwd=scripts, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_suite_without_the_folder_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOFTMARGIN_BENCHMARKS", raising=False)
    assert main(["bench", "scs", "-o", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "give --benchmarks DIR" in error


def test_script_that_fails_is_one_line_and_leaves_no_page(folder, tmp_path, capsys):
    for script in folder.glob("*/*.py"):
        script.write_text(script.read_text().replace("sys.exit(0)", "sys.exit(4)"))
    out = tmp_path / "out"
    assert main(["bench", "softmax", "-o", str(out), "--benchmarks", str(folder), "--quiet"]) == 1
    assert "exit code 4" in capsys.readouterr().err
    assert not (out / "softmax.html").exists()


def test_unknown_suite_is_one_line(capsys):
    assert main(["bench", "everything"]) == 2
    assert "invalid choice" in capsys.readouterr().err


def test_page_is_whole_and_escapes_what_it_shows(tmp_path):
    body = table(("a<b", "c"), [("1 & 2", "3")]) + preformatted("<script>") + image(png(tmp_path / "p.png"), 'a "b"')
    build_page(tmp_path / "page.html", "x < y", [Section("One & two", body)], machine_facts())
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert "<script>" not in page
    for text in ("x &lt; y", "One &amp; two", "a&lt;b", "1 &amp; 2", "a &quot;b&quot;", "cpu"):
        assert text in page
