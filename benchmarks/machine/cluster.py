"""What a fit on a Dask cluster costs: a pass beside its arithmetic, rows beyond memory, lost workers, dask-ml.

python benchmarks/machine/cluster.py same       the optimum of the local fit, certificates recomputed locally
python benchmarks/machine/cluster.py overhead   seconds of a pass through Dask beside the same passes in the workers
python benchmarks/machine/cluster.py rows       20 million rows of 28 features in files, two workers of 2 GB
python benchmarks/machine/cluster.py kills      20 fits, a worker killed at a random moment of each: the same bits?
python benchmarks/machine/cluster.py race       beside dask-ml's LogisticRegression at equal suboptimality
"""

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

from softmargin import KernelSVC, LinearSVC, SoftmaxRegression, certify
from softmargin.data import read_libsvm
from softmargin.losses.entrywise import Logistic
from softmargin.penalties import L2
from softmargin.problems import summed_passes as passes
from softmargin.problems.block_rows import Form
from softmargin.problems.summed import PenalizedSum

WIDTH = 28


def say(**facts):
    sys.stdout.write(json.dumps(facts, default=float) + "\n")
    sys.stdout.flush()


def start(memory="2GB", n_workers=2):
    cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, memory_limit=memory, dashboard_address=None)
    return Client(cluster)


def make_rows(n, seed):
    """Return rows of two classes that overlap, as Higgs events do."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, WIDTH))
    w = np.sin(np.arange(WIDTH))
    y = (X @ w + 2.0 * rng.standard_normal(n) > 0.0).astype(np.int8)
    return X, y


def written(folder, n, size):
    """Write rows block by block, and return Dask arrays that read the files."""
    folder.mkdir(exist_ok=True)
    parts = []
    for i, first in enumerate(range(0, n, size)):
        m = min(size, n - first)
        names = folder / f"X{i}.npy", folder / f"y{i}.npy"
        if not names[1].exists():
            for name, values in zip(names, make_rows(m, i), strict=True):
                np.save(name, values)
        parts.append((m, names))
    X = [da.from_delayed(dask.delayed(np.load)(x), (m, WIDTH), dtype=float) for m, (x, _) in parts]
    y = [da.from_delayed(dask.delayed(np.load)(t), (m,), dtype=np.int8) for m, (_, t) in parts]
    return da.concatenate(X), da.concatenate(y)


def peak(dask_worker=None):
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def same(args):
    with start() as client:
        for name in args.data or ["a9a.train", "letter.train", "news20.train", "mnist.train"]:
            X, y = read_libsvm(Path(args.folder) / f"{name}.libsvm.xz")[:2]
            if name.startswith("mnist"):
                X, y = X[:20_000] / 255.0, y[:20_000]
            X = X.toarray() if X.shape[1] < 2000 else X
            rows = -(-X.shape[0] // 4)
            blocks = [X[i : i + rows] for i in range(0, X.shape[0], rows)]
            dX = da.concatenate([da.from_delayed(dask.delayed(b), b.shape, dtype=float) for b in blocks])
            dy = da.from_array(y, chunks=rows)
            models = [
                SoftmaxRegression(),
                SoftmaxRegression(l1_ratio=1.0),
                LinearSVC(),
                LinearSVC(multiclass="crammer_singer"),
                LinearSVC(multiclass="one_vs_rest", loss="squared_hinge"),
            ]
            if X.shape[1] < 2000:
                models.append(KernelSVC(approximation="nystroem", n_components=200, random_state=0))
            for model in models[slice(*args.models)]:
                began = time.perf_counter()
                model.fit(dX, dy)
                seconds, found = time.perf_counter() - began, model.certificate_
                facts = {"data": name, "model": repr(model), "seconds": seconds, "steps": model.n_iter_}
                facts |= {"primal": found.primal, "residual": found.residual, "status": model.status_}
                if not isinstance(model, KernelSVC):
                    local = type(model)(**model.get_params()).fit(X, y)
                    judged = certify(model, X, y, bound_tol=model.tol)
                    facts["local primal"] = local.certificate_.primal
                    facts["recomputed"] = abs(judged.primal - found.primal) / found.primal
                say(**facts)
        client.cluster.close()


def overhead(args):
    form = Form(Logistic(), 1, 1.0, True)
    with start(args.memory) as client:
        n = int(args.megabytes * 1e6 / (8 * WIDTH))
        X = da.concatenate(
            [
                da.from_delayed(dask.delayed(lambda s: make_rows(n, s)[0])(s), (n, WIDTH), dtype=float)
                for s in range(args.parts)
            ]
        ).persist()
        y = (X[:, 0] > 0.0).astype(int).persist()
        wait([X, y])
        from softmargin.distributed.rows import checked_rows
        from softmargin.estimators.posing.fit import LARGEST_SQUARES

        rows = checked_rows(X, y, None, is_classifier=True, largest=LARGEST_SQUARES)
        problem = PenalizedSum(rows.blocks(np.ones(2)), form, L2(1.0))
        W = 0.01 * np.ones((WIDTH + 1, 1))
        problem.scored(W, 0.0)
        whole = min(timed(lambda: problem.scored(W, 0.0)) for _ in range(5))
        inside = problem.blocks.each(own_seconds, form, W)
        say(
            parts=args.parts,
            megabytes=args.megabytes,
            seconds=whole,
            arithmetic=sum(inside) / 2,
            ratio=2 * whole / sum(inside),
        )
        client.cluster.close()


def own_seconds(block, form, W):
    return min(timed(lambda: passes.scored(block, form, W, 0.0)) for _ in range(3))


def timed(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def rows(args):
    with start("2GB") as client:
        X, y = written(Path(args.scratch), args.n, 250_000)
        models = {
            "softmax": SoftmaxRegression(tol=1e-4),
            "squared hinge": LinearSVC(loss="squared_hinge", tol=1e-4),
            "hinge": LinearSVC(tol=1e-3),
        }
        for name, model in models.items():
            if args.models_named and name not in args.models_named:
                continue
            began = time.perf_counter()
            model.fit(X, y)
            seconds = time.perf_counter() - began
            peaks = client.run(peak)
            say(
                rows=args.n,
                model=name,
                seconds=seconds,
                steps=model.n_iter_,
                residual=model.certificate_.residual,
                client_gb=peak() / 1e9,
                workers_gb=[v / 1e9 for v in peaks.values()],
            )
        client.cluster.close()


def kills(args):
    X, y = make_rows(200_000, 0)
    reference, rng = None, np.random.default_rng(0)
    for trial in range(args.trials + 1):
        with start("1GB") as client:
            dX = da.from_array(X, chunks=(20_000, WIDTH))
            dy = da.from_array(y, chunks=20_000)
            pids = list(client.run(os.getpid).values())
            if trial:
                threading.Timer(
                    float(rng.uniform(0.0, args.within)), os.kill, (int(rng.choice(pids)), signal.SIGKILL)
                ).start()
            began = time.perf_counter()
            model = LinearSVC(tol=1e-3).fit(dX, dy)
            seconds = time.perf_counter() - began
            reference = model.coef_ if reference is None else reference
            alive = client.run(os.getpid).values()
            say(
                trial=trial,
                seconds=seconds,
                killed=len(set(pids) - set(alive)),
                steps=model.n_iter_,
                same_bits=bool(np.array_equal(model.coef_, reference)),
            )
            client.cluster.close()


def race(args):
    from dask_ml.linear_model import LogisticRegression

    with start("4GB") as client:
        X, y = written(Path(tempfile.mkdtemp()), args.n, 250_000)
        X, y = dask.persist(X, y.astype(np.int64))
        wait([X, y])
        best = SoftmaxRegression(tol=1e-8).fit(X, y).certificate_
        ours = SoftmaxRegression(tol=1e-4)
        seconds = timed(lambda: ours.fit(X, y))
        above = (ours.certificate_.primal - best.bound) / best.bound
        say(who="softmargin", seconds=seconds, above=above)
        Xh, yh = X.compute(), y.compute()
        for solver in ("lbfgs", "admm"):
            for max_iter in (10, 30, 100):
                theirs = LogisticRegression(solver=solver, C=1.0, max_iter=max_iter, tol=1e-12, fit_intercept=True)
                seconds = timed(lambda theirs=theirs: theirs.fit(X, y))
                w = np.ravel(theirs.coef_)
                scores = Xh @ w + float(np.ravel(theirs.intercept_)[0])
                value = np.logaddexp(0.0, np.where(yh == 1, -scores, scores)).sum() + 0.5 * w @ w
                say(
                    who=f"dask-ml {solver}", max_iter=max_iter, seconds=seconds, above=(value - best.bound) / best.bound
                )
        client.cluster.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["same", "overhead", "rows", "kills", "race"])
    parser.add_argument("--folder", default="data", help="of LIBSVM files, for `same`")
    parser.add_argument("--data", nargs="*")
    parser.add_argument("--models", nargs=2, type=int, default=(0, 9))
    parser.add_argument("--models-named", nargs="*")
    parser.add_argument("--n", type=int, default=20_000_000)
    parser.add_argument("--scratch", default="rows", help="where rows are written")
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--megabytes", type=float, default=50.0)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--within", type=float, default=3.0, help="seconds in which a worker is killed")
    args = parser.parse_args()
    globals()[args.what](args)


if __name__ == "__main__":
    main()
