"""What a fit on a Dask cluster costs: a pass beside its arithmetic, rows beyond memory, lost workers, dask-ml.

python benchmarks/machine/cluster.py same       the optimum of the local fit, certificates recomputed locally
python benchmarks/machine/cluster.py overhead   seconds of a pass through Dask beside the same passes in the workers
python benchmarks/machine/cluster.py passes     seconds and bytes of a pass on 1, 2 and 4 workers
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
from sklearn.preprocessing import normalize

from softmargin import KernelSVC, LinearSVC, SoftmaxRegression, certify
from softmargin.data import read_libsvm
from softmargin.distributed.rows import checked_rows
from softmargin.estimators.posing.fit import LARGEST_SQUARES
from softmargin.features.landmarks import choose_landmarks
from softmargin.losses.entrywise import Logistic
from softmargin.penalties import L2
from softmargin.problems import summed_passes
from softmargin.problems.block_rows import Form
from softmargin.problems.summed import PenalizedSum

WIDTH = 28


def say(**facts):
    sys.stdout.write(json.dumps(facts, default=float) + "\n")
    sys.stdout.flush()


def start(memory="2GB", n_workers=2):
    cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, memory_limit=memory, dashboard_address=":0")
    return Client(cluster)


def make_rows(n, seed, classes=2):
    """Return rows of classes that overlap, as Higgs events do."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, WIDTH))
    if classes == 2:
        y = X @ np.sin(np.arange(WIDTH)) + 2.0 * rng.standard_normal(n) > 0.0
    else:
        scores = X @ np.sin(np.arange(WIDTH * classes)).reshape(WIDTH, classes)
        y = (scores + 2.0 * rng.standard_normal(scores.shape)).argmax(axis=1)
    return X, y.astype(np.int8)


def write_rows(names, n, seed, classes):
    for name, values in zip(names, make_rows(n, seed, classes), strict=True):
        if not name.exists():
            np.save(name, values)


def written(folder, n, size, classes=2):
    """Write rows block by block, where workers are, and return Dask arrays that read the files."""
    folder.mkdir(exist_ok=True, parents=True)
    write, load, parts = dask.delayed(write_rows), dask.delayed(np.load), []
    for i, first in enumerate(range(0, n, size)):
        parts.append((min(size, n - first), (folder / f"X{i}.npy", folder / f"y{classes}-{i}.npy")))
    dask.compute(*[write(names, m, i, classes) for i, (m, names) in enumerate(parts)])
    X = [da.from_delayed(load(x), (m, WIDTH), dtype=float) for m, (x, _) in parts]
    y = [da.from_delayed(load(t), (m,), dtype=np.int8) for m, (_, t) in parts]
    return da.concatenate(X), da.concatenate(y)


def peak(dask_worker=None):
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def on_landmarks(model, X, y):
    """Return the linear model on the features of landmarks that a ``KernelSVC`` is, these features, and y."""
    rng = np.random.default_rng(model.random_state)
    landmarks = choose_landmarks(model.model().kernel, X, model.n_components, rng, bias=1.0)
    Z = landmarks.transform(X)
    linear = LinearSVC(fit_intercept=False).fit(Z, y)
    linear.coef_ = np.linalg.lstsq(landmarks.map, model.dual_coef_.T)[0].T.copy()
    return linear, Z, y


def same(args):
    with start() as client:
        for name in args.data or ["a9a.train", "letter.train", "news20.train", "mnist.train"]:
            X, y = read_libsvm(Path(args.folder) / f"{name}.libsvm.xz")[:2]
            if name.startswith("mnist"):
                X, y = X[:20_000] / 255.0, y[:20_000]
            if name.startswith("news20"):
                X = normalize(X)  # counts of words; as its users do
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
                facts |= {"primal": found.primal, "residual": found.residual, "rounding": found.rounding}
                facts["status"] = model.status_
                local = type(model)(**model.get_params()).fit(X, y)
                own = on_landmarks(model, X, y) if isinstance(model, KernelSVC) else (model, X, y)
                facts["local primal"] = local.certificate_.primal
                facts["recomputed"] = abs(certify(*own, bound_tol=model.tol).primal - found.primal) / found.primal
                say(**facts)
        client.cluster.close()


def logistic_rows(parts, megabytes):
    """Return the logistic problem of some partitions, kept by the workers."""
    n = max(1, int(megabytes * 1e6 / (8 * WIDTH)))
    make = dask.delayed(lambda s: make_rows(n, s)[0])
    X = da.concatenate([da.from_delayed(make(s), (n, WIDTH), dtype=float) for s in range(parts)]).persist()
    y = (X[:, 0] > 0.0).astype(int).persist()
    wait([X, y])
    rows = checked_rows(X, y, None, is_classifier=True, largest=LARGEST_SQUARES)
    return PenalizedSum(rows.blocks(np.ones(2)), Form(Logistic(), 1, 1.0, True), L2(1.0))


def overhead(args):
    with start(args.memory) as client:
        problem = logistic_rows(args.parts, args.megabytes)
        for _ in range(args.repeats):
            say(parts=args.parts, megabytes=args.megabytes, **pass_facts(client, problem, "scored", 2))
        client.cluster.close()


def passes(args):
    for n_workers in args.workers:
        with start(args.memory, n_workers) as client:
            problem = logistic_rows(args.parts, args.megabytes)
            for name in ("scored", "curvature"):
                facts = pass_facts(client, problem, name, n_workers)
                say(workers=n_workers, parts=args.parts, megabytes=args.megabytes, **facts)
            client.cluster.close()


def pass_facts(client, problem, name, n_workers, repeats=7):
    """Return what a pass costs, and what its arithmetic costs where nothing but the partitions is computed."""
    W = 0.01 * np.ones(problem.shape)
    work = getattr(problem, name)
    work(W, 0.0)
    before = bytes_sent(client)
    times = [timed(lambda: work(W, 0.0)) for _ in range(repeats)]
    sent = bytes_sent(client) - before
    inside = np.min([problem.blocks.each(own_seconds, name, problem.form, W) for _ in range(3)], axis=0)
    share, whole = sum(inside) / n_workers, min(times)
    facts = {"seconds": whole, "median": float(np.median(times)), "arithmetic": share, "ratio": whole / share}
    return {"what": name, **facts, "bytes": sent / repeats}


def own_seconds(block, name, form, W):
    return timed(lambda: getattr(summed_passes, name)(block, form, W, 0.0))


def bytes_sent(client):
    """Return how many bytes all processes wrote to each other since they were first asked."""
    return counted_bytes() + sum(client.run(counted_bytes).values())


def counted_bytes(_sent=[0]):  # noqa: B006  (a counter of the process)
    from distributed.comm.tcp import TCP

    if not hasattr(TCP, "counts"):
        plain = TCP.write

        async def write(self, *args, **kwargs):
            n = await plain(self, *args, **kwargs)
            _sent[0] += n
            return n

        TCP.write, TCP.counts = write, True
    return _sent[0]


def timed(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def rows(args):
    with start("2GB") as client:
        began = time.perf_counter()
        X, y = written(Path(args.scratch), args.n, 250_000, args.classes)
        say(rows=args.n, classes=args.classes, written=time.perf_counter() - began)
        models = {
            "softmax": SoftmaxRegression(tol=1e-4),
            "squared hinge": LinearSVC(multiclass="one_vs_rest", loss="squared_hinge", tol=1e-4),
            "weston watkins": LinearSVC(tol=1e-3),
            "crammer singer": LinearSVC(multiclass="crammer_singer", tol=1e-3),
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
                classes=args.classes,
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
    reference, within, rng = None, args.within, np.random.default_rng(0)
    for trial in range(-1, args.trials + 1):  # the first fit compiles, the second is timed
        with start("1GB") as client:
            dX = da.from_array(X, chunks=(20_000, WIDTH))
            dy = da.from_array(y, chunks=20_000)
            pids = list(client.run(os.getpid).values())
            if trial > 0:
                threading.Timer(
                    float(rng.uniform(0.0, within)), os.kill, (int(rng.choice(pids)), signal.SIGKILL)
                ).start()
            began = time.perf_counter()
            model = LinearSVC(tol=1e-3).fit(dX, dy)
            seconds = time.perf_counter() - began
            reference = model.coef_ if reference is None else reference
            within = args.within or (seconds if trial <= 0 else within)
            alive = client.run(os.getpid).values()
            say(
                trial=trial,
                seconds=seconds,
                killed=len(set(pids) - set(alive)),
                steps=model.n_iter_,
                same_bits=bool(np.array_equal(model.coef_, reference)),
            )
            client.cluster.close()


def cpu_seconds(client):
    """Return the seconds of cores that client, scheduler and workers have used: they count on a busy machine, too."""
    return time.process_time() + sum(client.run(lambda: time.process_time()).values())


def race(args):
    import dask_glm.algorithms
    from dask_ml.linear_model import LogisticRegression

    plain = dask_glm.algorithms.fmin_l_bfgs_b  # newer releases of SciPy have no iprint, which it passes
    dask_glm.algorithms.fmin_l_bfgs_b = lambda *given, iprint=None, **named: plain(*given, **named)
    with start("4GB") as client, tempfile.TemporaryDirectory() as folder:
        X, y = written(Path(folder), args.n, 250_000)
        X, y = dask.persist(X, y.astype(np.int64))
        wait([X, y])
        best = SoftmaxRegression(tol=1e-8).fit(X, y).certificate_
        Xh, yh = X.compute(), y.compute()

        def above(model):
            w = np.ravel(model.coef_)
            scores = Xh @ w + float(np.ravel(model.intercept_)[0])
            value = np.logaddexp(0.0, np.where(yh == 1, -scores, scores)).sum() + 0.5 * w @ w
            return (value - best.bound) / best.bound

        runners = {"softmargin": SoftmaxRegression(tol=1e-4)} | {
            f"dask-ml {solver}, {n} steps": LogisticRegression(solver=solver, C=1.0, max_iter=n, tol=1e-12)
            for solver, n in (("lbfgs", 5), ("lbfgs", 7), ("lbfgs", 100), ("admm", 10), ("admm", 100))
        }
        for _ in range(args.repeats):
            for name, model in runners.items():
                before = cpu_seconds(client)
                seconds = timed(lambda model=model: model.fit(X, y))
                say(who=name, seconds=seconds, cpu=cpu_seconds(client) - before, above=above(model))
        client.cluster.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["same", "overhead", "passes", "rows", "kills", "race"])
    parser.add_argument("--folder", default="data", help="of LIBSVM files, for `same`")
    parser.add_argument("--data", nargs="*")
    parser.add_argument("--models", nargs=2, type=int, default=(0, 9))
    parser.add_argument("--models-named", nargs="*")
    parser.add_argument("--n", type=int, default=20_000_000)
    parser.add_argument("--scratch", default="rows", help="where rows are written")
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--workers", nargs="*", type=int, default=(1, 2, 4))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--megabytes", type=float, default=50.0)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--within", type=float, help="seconds in which a worker is killed; those of the first fit")
    args = parser.parse_args()
    globals()[args.what](args)


if __name__ == "__main__":
    main()
