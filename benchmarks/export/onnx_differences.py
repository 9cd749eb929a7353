"""The largest difference between our scores and those of onnxruntime, over all estimators and ten data sets.

    python benchmarks/export/onnx_differences.py [--data-dir DIR] [NAME ...]

Every estimator is fitted to some hundred rows of a data set as it comes and exported; graph and estimator get the same
float32 rows of its test part. A difference is |ours - theirs| / max(1, largest |ours|) for scores and predictions, and
|ours - theirs| for probabilities. Labels are counted that differ.
"""

import argparse
import warnings

import numpy as np
import onnxruntime

import softmargin as sm
from softmargin.data import load, split

NAMES = "dna letter segment vehicle svmguide1 wdbc isolet1560 winequality-red mnist reuters-r52".split()  # noqa: SIM905
ROWS, SEED = 200, 0
COMPUTE = ("float64", "float32")
COLUMNS = [(what, compute) for compute in COMPUTE for what in ("scores", "probabilities", "labels")]
SETTINGS = {"tol": 1e-2, "max_iter": 100, "max_seconds": 2.0, "random_state": SEED}  # any point will do
GRID = {"Cs": [0.1, 1.0], "cv": 2}


def estimators(d: int) -> dict:
    """Return one of every kind by name; d features."""
    found = {}
    for multiclass in ("weston_watkins", "one_vs_rest", "one_vs_one"):
        for probability in (None, "sigmoid", "temperature", "isotonic"):
            settings = {"multiclass": multiclass, "probability": probability, **SETTINGS}
            found[f"LinearSVC {multiclass} {probability}"] = sm.LinearSVC(**settings)
            found[f"KernelSVC rbf {multiclass} {probability}"] = sm.KernelSVC(**settings)
    for kernel in ("linear", "laplacian", "polynomial", "sigmoid"):
        found[f"KernelSVC {kernel}"] = sm.KernelSVC(kernel=kernel, coef0=1.0, **SETTINGS)
    found["KernelSVC nystroem"] = sm.KernelSVC(approximation="nystroem", n_components=50, **SETTINGS)
    found["SoftmaxRegression"] = sm.SoftmaxRegression(**SETTINGS)
    found["SoftmaxRegression l1"] = sm.SoftmaxRegression(l1_ratio=1.0, **SETTINGS)
    for loss in ("smooth_hinge", "multinomial", "logistic"):
        found[f"L1BallClassifier {loss}"] = sm.L1BallClassifier(10.0, loss=loss, **SETTINGS)
        found[f"TraceBallClassifier {loss}"] = sm.TraceBallClassifier(10.0, loss=loss, **SETTINGS)
    found["L1BallRegressor"] = sm.L1BallRegressor(5.0, **SETTINGS)
    found["TraceBallRegressor"] = sm.TraceBallRegressor(5.0, **SETTINGS)
    found["MatrixSensing"] = sm.MatrixSensing((1, d), 5.0, **SETTINGS)
    for cv in (sm.LinearSVCCV, sm.KernelSVCCV, sm.SoftmaxRegressionCV):
        found[cv.__name__] = cv(**GRID, **SETTINGS)
    for cv in (sm.L1BallClassifierCV, sm.L1BallRegressorCV, sm.TraceBallClassifierCV, sm.TraceBallRegressorCV):
        found[cv.__name__] = cv(radii=[1.0, 5.0], cv=2, **SETTINGS)
    return found


def rows_of(name: str, data_dir: str | None) -> tuple:
    """Return some rows to train on and some to compare, float32 and dense, of classes with five rows at least."""
    data = load(name, data_dir=data_dir)
    data = split(data, test_size=0.5, seed=SEED) if data.X_test is None else data
    rng = np.random.default_rng(SEED)
    parts = []
    for X, y in ((data.X, data.y), (data.X_test, data.y_test)):
        rows = np.sort(rng.permutation(len(y))[:ROWS])
        part = X[rows] if isinstance(X, np.ndarray) else X[rows].toarray()
        parts.append((part.astype(np.float32), y[rows]))
    (X, y), (X_test, _) = parts
    classes, counts = np.unique(y, return_counts=True)
    kept = np.isin(y, classes[counts >= 5])
    width = max(X.shape[1], X_test.shape[1])
    X, X_test = (np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in (X[kept], X_test))
    return X, y[kept], X_test


def differences(estimator, X, compute: str) -> dict[str, float]:
    """Return the differences of one fitted estimator."""
    graph = estimator.to_onnx(compute=compute).SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    theirs = dict(zip([out.name for out in session.get_outputs()], session.run(None, {"X": X}), strict=True))
    if "prediction" in theirs:
        ours = estimator.predict(X)
        return {"scores": np.abs(ours - theirs["prediction"]).max() / max(1.0, np.abs(ours).max())}
    ours = estimator.decision_function(X.astype(np.float64))
    found = {
        "scores": np.abs(ours - theirs["scores"]).max() / max(1.0, np.abs(ours).max()),
        "labels": int((estimator.predict(X.astype(np.float64)) != theirs["label"]).sum()),
    }
    if hasattr(estimator, "predict_proba"):
        found["probabilities"] = np.abs(estimator.predict_proba(X.astype(np.float64)) - theirs["probabilities"]).max()
    return found


def main() -> None:
    """Print a table by estimator, and the largest of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--data-dir")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # fits end early on purpose
    worst: dict[str, dict[tuple[str, str], float]] = {}
    for name in args.names or NAMES:
        X, y, X_test = rows_of(name, args.data_dir)
        codes = np.unique(y, return_inverse=True)[1]
        labels = np.array([f"class {label}" for label in y])
        for kind, estimator in estimators(X.shape[1]).items():
            is_number = "Regressor" in kind or kind == "MatrixSensing"
            estimator.fit(X.astype(np.float64), codes.astype(float) if is_number else labels)
            own = worst.setdefault(kind, {})
            for compute in COMPUTE:
                for what, value in differences(estimator, X_test, compute).items():
                    own[what, compute] = max(own.get((what, compute), 0), value)
        largest = {each: max(own[each] for own in worst.values() if each in own) for each in COLUMNS}
        shown = ", ".join(f"{what} {compute} {largest[what, compute]:.1e}" for what, compute in COLUMNS)
        print(f"{name}: {X.shape[1]} features, {codes.max() + 1} classes; largest so far: {shown}", flush=True)  # noqa: T201
    lines = ["| estimator |" + "".join(f" {what}, {compute} |" for what, compute in COLUMNS)]
    lines.append("|---" * (1 + len(COLUMNS)) + "|")
    for kind, own in {**worst, "largest": largest}.items():
        lines.append(f"| {kind} |" + "".join(f" {own[each]:.1e} |" if each in own else " |" for each in COLUMNS))
    print("\n".join(lines))  # noqa: T201


if __name__ == "__main__":
    main()
