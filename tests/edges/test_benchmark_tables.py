"""The tables and the work model of the benchmarks folder: what they print is what was measured, by hand-made files."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from softmargin import KernelSVC, L1BallClassifier, LinearSVC, SoftmaxRegression

FOLDER = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no benchmarks folder beside the tests")


@pytest.fixture
def script(monkeypatch):
    """Return a function that imports a script of the folder; its modules are forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if (FOLDER / name.partition(".")[0]).is_dir():
            del sys.modules[name]


def measured(path, rows):
    """Write measurements: (data, tol, solver, repeat, seconds); None is a run into the cap of 2 seconds."""
    with open(path, "w") as file:
        for data, tol, solver, repeat, seconds in rows:
            row = {
                "kind": "measurement",
                "benchmark": "l2_svm",
                "kernel": "linear",
                "data": data,
                "C": 1.0,
                "solver": solver,
                "tol": tol,
                "repeat": repeat,
                "status": "over cap" if seconds is None else "converged",
                "seconds": seconds,
                "residual": tol,
                "cap": 2.0,
            }
            file.write(json.dumps(row) + "\n")
    return path


def peer_table(*words):
    return subprocess.run(
        [sys.executable, "races/peer_table.py", *map(str, words)],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )


def test_peer_table_has_the_fastest_peer_the_means_and_the_losses(tmp_path):
    rows = [("a", 1e-2, "softmargin", repeat, seconds) for repeat, seconds in enumerate((0.1, 0.4, 0.2))]
    rows += [("a", 1e-2, "slow", 0, 1.0), ("a", 1e-2, "quick[solver=x]", 0, 0.1)]
    rows += [("b", 1e-2, "softmargin", 0, 0.2), ("b", 1e-2, "slow", 0, 0.8), ("b", 1e-2, "quick[solver=x]", 0, None)]
    rows += [("c", 1e-2, "softmargin", 0, 0.5), ("c", 1e-2, "slow", 0, None), ("c", 1e-2, "quick[solver=x]", 0, None)]
    rows += [("d", 1e-2, "softmargin", 0, None), ("d", 1e-2, "slow", 0, 1.0)]
    done = peer_table(measured(tmp_path / "m.jsonl", rows))
    assert done.returncode == 0, done.stderr
    head, _, line = done.stdout.splitlines()
    found = dict(zip(*([text.strip() for text in row.strip("|").split("|")] for row in (head, line)), strict=True))
    # a is lost by two (a median of three), b won by four, c won by at least four, d missed.
    assert found["at 0.01"] == found["all"] == "> 2.00×"
    assert found["worst case"] == "0.50× (a 1 0.01)"
    assert [found[name] for name in ("cells", "no peer", "missed by us", "lost by more than 1.2")] == list("4011")
    cells = peer_table("--cells", tmp_path / "m.jsonl").stdout.splitlines()
    assert "| a | 1 | 0.2000 | 0.1000 quick x (0.50×) |" in cells
    assert "| c | 1 | 0.5000 | > 2 (> 4.00×) |" in cells


def test_peer_table_draws_all_ratios(tmp_path):
    pytest.importorskip("matplotlib", reason="the picture needs matplotlib: pip install '.[plot]'")
    rows = [("a", 1e-2, "softmargin", 0, 0.1), ("a", 1e-2, "slow", 0, 1.0), ("b", 1e-2, "softmargin", 0, 0.1)]
    done = peer_table(
        measured(tmp_path / "m.jsonl", [*rows, ("b", 1e-2, "slow", 0, None)]), "--plot", tmp_path / "p.png"
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_peer_table_without_its_file_is_one_line(tmp_path):
    done = peer_table(tmp_path / "nothing.jsonl")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "does not exist; measure it first" in done.stderr


@pytest.mark.parametrize(("seconds", "counted"), [([0.05, 0.02], 0.02), ([3.0, 0.02], 3.0)])
def test_the_second_of_two_short_runs_counts_and_a_long_one_is_not_repeated(script, seconds, counted):
    pytest.importorskip("benchopt", reason="the solvers that race need benchopt")
    runs = iter(seconds)
    assert script("problems.shared.racing").settled(lambda: next(runs), lambda found: found) == counted


def test_samples_of_a_profile_count_for_the_innermost_line_of_the_library(script, tmp_path):
    fold_stacks = script("machine.profiles").fold_stacks
    inside = tmp_path / "run" / "solve.py"
    stacks = [
        f"main (x.py:1);again (x.py:2);solve ({inside}:7);dot (numpy.py:3) 6",
        f"main (x.py:1);again (x.py:2);solve ({inside}:7);step ({inside}:9) 3",
        "main (x.py:1);again (x.py:2);fit (x.py:4) 1",
        f"main (x.py:1);load ({inside}:7) 90",
    ]
    shares, count = fold_stacks(stacks, mark="again", sources=tmp_path)
    assert count == 10
    assert shares == {"run/solve.py:7 solve": 0.6, "run/solve.py:9 step": 0.3, "elsewhere": 0.1}


def test_every_name_that_a_benchmark_imports_is_in_the_library():
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("softmargin"):
                module = importlib.import_module(node.module)
                for name in (alias.name for alias in node.names if not hasattr(module, alias.name)):
                    importlib.import_module(f"{node.module}.{name}")


def test_every_function_of_the_work_model_is_in_the_library(script):
    for path in script("machine.work_model").COUNTED:
        module, _, name = path.partition(":")
        owner = importlib.import_module(f"softmargin.{module}")
        for part in name.split("."):
            owner = getattr(owner, part, None)
            assert owner is not None, f"softmargin.{path} is gone"


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("k", [3, 12])
def test_work_of_a_product_is_two_operations_an_entry_and_class(script, is_sparse, k):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 7)) * (rng.random((20, 7)) < 0.4)
    X = sparse.csr_matrix(X) if is_sparse else X
    product = importlib.import_module("softmargin.matrices.operator").product
    roofline = script("machine.roofline")
    with roofline.counting(k) as counter:
        importlib.import_module("softmargin.matrices.operator").product(X, np.ones((7, k)))
    assert importlib.import_module("softmargin.matrices.operator").product is product
    assert counter.total.flops == 2 * (X.nnz if is_sparse else X.size) * k
    assert counter.total.bytes > 0.0


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        LinearSVC(),
        LinearSVC(multiclass="crammer_singer"),
        LinearSVC(loss="squared_hinge", multiclass="one_vs_rest"),
        KernelSVC(approximation=None),
        KernelSVC(loss="squared_hinge", multiclass="one_vs_rest"),
        SoftmaxRegression(),
        SoftmaxRegression(l1_ratio=1.0),
        L1BallClassifier(radius=0.5),
    ],
    ids=repr,
)
def test_counting_changes_nothing_about_a_fit(script, model, k):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((60, 5)), np.arange(60) % k
    model = clone(model).set_params(tol=1e-3, random_state=0)
    plain = clone(model).fit(X, y)
    with script("machine.roofline").counting(k) as counter:
        counted = clone(model).fit(X, y)
    assert counted.certificate_ == plain.certificate_
    assert counter.total.flops > 2 * X.size


@pytest.mark.parametrize(
    ("workers", "p", "seconds", "spread"),
    [(1, 5, 2.0, 0.0), (4, 64, 0.5, 0.0), (64, 1000, 3.0, 0.3), (1000, 1000, 3.0, 0.3), (1000, 5000, 0.05, 0.3)],
)
def test_the_formula_of_a_pass_agrees_with_its_simulation(script, workers, p, seconds, spread):
    model, rng = script("machine.cluster_model"), np.random.default_rng(0)
    machines = model.Machines(workers, graph=4e-4, done=6e-4)
    runs = [model.simulated(machines, model.drawn(rng, p, seconds, spread), 7000) for _ in range(3)]
    # The slowest of many is only about sqrt(2 log n) deviations behind.
    assert np.mean(runs) == pytest.approx(
        model.formula(machines, p, seconds, 7000, spread), rel=0.1 if spread else 0.02
    )


def test_the_simulation_of_a_pass_is_what_is_counted_by_hand(script):
    model = script("machine.cluster_model")
    machines = model.Machines(workers=2, graph=1.0, done=0.1, latency=0.01, bandwidth=1e3)
    # 17 partitions, 9 on the first worker: 17 + 2 + 1 tasks, then 9 x 5 s; the last of the others is heard of before,
    # but the first 16 are added, sent up (16 x 100 bytes take 1.6 s), and added to the last one, again 1.6 s.
    found = model.simulated(machines, np.full(17, 5.0), 100.0)
    assert found == pytest.approx(20.0 + 45.0 + 0.01 + 0.1 + 2 * (0.02 + 1.6) + 0.1)
    # A worker that takes twice as long is what the pass waits for.
    slow = np.where(np.arange(17) < 9, 10.0, 5.0)
    assert model.simulated(machines, slow, 100.0) - found == pytest.approx(45.0)
    assert model.ADDED == pytest.importorskip("softmargin.distributed.blocks", exc_type=ImportError)._ADDED
