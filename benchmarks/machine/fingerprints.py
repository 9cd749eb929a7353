"""The same numbers as before? The certificate, iterations and a hash of the coefficients of a fit of every kind.

    python benchmarks/machine/fingerprints.py -o before.json          # on the code as it was
    python benchmarks/machine/fingerprints.py --compare before.json   # on the code as it is

The fits cover every estimator and every solver name, dense and CSR. They use the public interface alone, so the script
runs on any commit. A fit is "equal" where all bits of its coefficients and certificate are, "close" where they differ
by at most 1e-12 relative, else "different"; the exit code is 1 where a fit is different. One thread: sums of a
threaded BLAS depend on the number of threads.
"""

import argparse
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import softmargin as sm

CLOSE = 1e-12
PASSES = 40  # budget of every fit: methods that need thousands of passes are compared on their way

Fit = tuple[str, Callable[[], Any], bool, bool]  # name, maker of the estimator, is X sparse, are there two classes


def fits() -> Iterator[Fit]:
    """Yield all fits; a name starts with the family of its solver."""
    both = (False, True)
    for multiclass in ("weston_watkins", "crammer_singer"):
        for sparse in both:
            for solver in ("auto", "walrus") if multiclass == "weston_watkins" else ("auto",):
                yield _fit("linear_svm", sm.LinearSVC, sparse, multiclass=multiclass, solver=solver)
    yield _fit("linear_svm", sm.LinearSVC, solver="shark")
    for sparse in both:
        yield _fit("linear_svm", sm.LinearSVC, sparse, multiclass="one_vs_rest")
        yield _fit("linear_svm", sm.LinearSVC, sparse, two=True, class_weight="balanced")
        for solver in ("auto", "smo", "dual_prox_gradient"):
            yield _fit(
                "squared_hinge",
                sm.LinearSVC,
                sparse,
                multiclass="one_vs_rest",
                loss="squared_hinge",
                solver=solver,
            )
    for solver in (
        "block_descent",
        "projected_gradient",
        "frank_wolfe",
        "block_frank_wolfe",
        "pairwise_frank_wolfe",
    ):
        yield _fit("kernel_svm", sm.KernelSVC, solver=solver)
    yield _fit("kernel_svm", sm.KernelSVC, multiclass="crammer_singer", C=10.0)
    yield _fit("kernel_svm", sm.KernelSVC, multiclass="one_vs_rest")
    yield _fit("kernel_svm", sm.KernelSVC, True, kernel="polynomial")
    yield _fit("kernel_svm", sm.KernelSVC, two=True, kernel="laplacian", gamma=0.1)
    yield _fit("kernel_svm", sm.KernelSVC, approximation="nystroem", n_components=50)
    for solver in ("smo", "dual_prox_gradient"):
        yield _fit("squared_hinge", sm.KernelSVC, two=True, loss="squared_hinge", solver=solver)
    yield _fit("squared_hinge", sm.KernelSVC, True, multiclass="one_vs_rest", loss="squared_hinge", kernel="linear")
    for solver in ("scs", "wolfe", "pegasos"):
        yield _fit("sampled_kernel", sm.KernelSVC, two=True, solver=solver)
    yield _fit("sampled_kernel", sm.KernelSVC, True, multiclass="one_vs_rest", solver="scs")
    any_penalty = ("prox_newton", "mm_descent", "accelerated_gradient", "block_prox_gradient", "svrg")
    for solver in ("auto", "lbfgs", "newton", "newton_cg", "trust_newton", "dual_descent", *any_penalty):
        yield _fit("softmax", sm.SoftmaxRegression, solver=solver)
    for solver in ("auto", "newton", "dual_descent"):
        yield _fit("softmax", sm.SoftmaxRegression, True, solver=solver)
        yield _fit("softmax", sm.SoftmaxRegression, True, two=True, solver=solver)
    for solver in (*any_penalty, "interior_point"):
        yield _fit("softmax", sm.SoftmaxRegression, solver=solver, l1_ratio=1.0, C=0.1)
    for two in both:
        yield _fit("softmax", sm.SoftmaxRegression, True, two=two, l1_ratio=0.5)
    yield _fit("softmax", sm.SoftmaxRegression, two=True, l1_ratio=1.0)
    for penalty in ("Group", "MCP"):
        yield _fit("softmax", sm.SoftmaxRegression, penalty=getattr(sm.penalties, penalty)(0.5))
    yield _fit("softmax", sm.SoftmaxRegressionCV, two=True, Cs=3, cv=2)
    any_ball = ("accelerated_gradient", "frank_wolfe", "block_frank_wolfe", "svrg", "scgs", "storc")
    for solver in ("auto", "working_set", "pairwise_frank_wolfe", *any_ball):
        yield _fit("ball", sm.L1BallClassifier, solver=solver)
    for solver in ("auto", "dual_descent"):
        yield _fit("ball", sm.L1BallClassifier, True, two=True, solver=solver, l2=10.0, fit_intercept=False)
    yield _fit("ball", sm.L1BallClassifier, True, loss="logistic")
    for cls in (sm.L1BallClassifier, sm.TraceBallClassifier):
        yield _fit("ball", cls, solver="primal_dual_bfw", l2=0.1, fit_intercept=False)
    yield _fit("ball", sm.L1BallRegressor, two=True)
    for solver in ("auto", *any_ball):
        yield _fit("ball", sm.TraceBallClassifier, solver=solver)
    yield _fit("ball", sm.TraceBallRegressor, True, two=True)


def _fit(family: str, cls: Any, sparse: bool = False, *, two: bool = False, **settings: Any) -> Fit:
    said = ", ".join(f"{key}={value}" for key, value in settings.items())
    name = f"{family}: {cls.__name__}({said}) {'CSR' if sparse else 'dense'}, {2 if two else 10} classes"
    fixed = {"tol": 1e-4, "max_iter": PASSES, "random_state": 0}
    return name, lambda: cls(**fixed, **settings), sparse, two


def measured(fit: Fit, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Fit it; return what is compared, and the seconds."""
    _, make, sparse, two = fit
    if two:
        X, y = X[y < 2], y[y < 2]
    began = time.perf_counter()
    model = make().fit(csr_matrix(X) if sparse else X, y)
    seconds = time.perf_counter() - began
    certificate = model.certificate_
    parts = [np.asarray(getattr(model, name)) for name in ("coef_", "dual_coef_", "intercept_") if _has(model, name)]
    values = np.concatenate([np.ravel(part).astype(np.float64) for part in parts])
    return {
        "kind": certificate.kind,
        "numbers": [float(certificate.primal), float(certificate.bound), float(certificate.residual)],
        "iterations": int(np.max(model.n_iter_)),
        "hash": hashlib.sha256(values.tobytes()).hexdigest()[:16],
        "norm": float(np.linalg.norm(values)),
        "seconds": round(seconds, 4),
    }


def _has(model: Any, name: str) -> bool:
    try:
        return getattr(model, name, None) is not None
    except AttributeError:
        return False


def verdict(now: dict[str, Any], before: dict[str, Any] | None) -> str:
    """Say "equal", "close", "different" or "new"."""
    if before is None:
        return "new"
    exact = ("kind", "numbers", "iterations", "hash")
    if all(now[key] == before[key] for key in exact):
        return "equal"
    same = now["kind"] == before["kind"] and now["iterations"] == before["iterations"]
    numbers = [*now["numbers"][:2], now["norm"]], [*before["numbers"][:2], before["norm"]]
    return "close" if same and np.allclose(*numbers, rtol=CLOSE, atol=0.0) else "different"


def main() -> int:
    """Fit all that were asked for, compare them or write them down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.json", help="write the fingerprints here")
    parser.add_argument("--compare", type=Path, metavar="FILE.json", help="fingerprints of another commit")
    parser.add_argument("--only", default="", metavar="TEXT", help="fits whose name starts with this, such as softmax")
    options = parser.parse_args()
    before = json.loads(options.compare.read_text()) if options.compare else {}
    digits = load_digits()
    X, y = digits.data[:600] / 16.0, digits.target[:600]
    found, verdicts = {}, []
    warnings.simplefilter("ignore")
    for fit in fits():
        if not fit[0].startswith(options.only):
            continue
        with threadpool_limits(1):
            found[fit[0]] = measured(fit, X, y)
        if options.compare:
            verdicts.append(verdict(found[fit[0]], before.get(fit[0])))
            if verdicts[-1] != "equal":
                sys.stdout.write(f"{verdicts[-1]}: {fit[0]}\n")
    if options.output:
        options.output.write_text(json.dumps(found, indent=1) + "\n")
    counts = ", ".join(f"{verdicts.count(kind)} {kind}" for kind in sorted(set(verdicts)))
    sys.stdout.write(f"{len(found)} fits{': ' + counts if counts else ''}\n")
    return int("different" in verdicts)


if __name__ == "__main__":
    sys.exit(main())
