"""Data sets as users bring them, made by a seed: what public folders have few of.

    python benchmarks/hard/made.py FOLDER
    SOFTMARGIN_DATA=FOLDER python benchmarks/hard/certified.py --jobs 2 -o made.jsonl

Dates, numbers of accounts, sums of other columns, codes of categories, amounts over ten orders of magnitude, rare
classes, repeated rows with other labels, curves, counts. One LIBSVM file each, rounded to the digits that such a file
has. Some rules of linear hinges were made with them in view (docs/results/hard.md), all others without.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from scipy.sparse import random as random_sparse
from sklearn.datasets import dump_svmlight_file, make_classification
from sklearn.preprocessing import PolynomialFeatures

Array = NDArray[Any]
Made = tuple[Any, Array]
DIGITS = {"dates": 10, "copies": 7, "ids": 16, "stamp": 13, "stamps": 13, "sensor": 10, "coords": 10}


def labels_of(X: Array, k: int, rng: np.random.Generator, noise: float) -> Array:
    """Return the classes of random linear scores of the standardised columns, with noise."""
    Z = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-12)
    scores = Z @ rng.normal(size=(X.shape[1], k)) / np.sqrt(X.shape[1])
    return np.asarray((scores + noise * rng.gumbel(size=scores.shape)).argmax(axis=1))


def lowrank(rng: np.random.Generator) -> Made:
    """Return 300 features, of which 200 are sums of 60 others; ten classes that overlap."""
    X, y = make_classification(
        3000,
        300,
        n_informative=60,
        n_redundant=200,
        n_classes=10,
        n_clusters_per_class=2,
        class_sep=1.5,
        flip_y=0.02,
        random_state=1,
    )
    return X * np.exp(1.5 * rng.normal(size=300)), y


def curves(rng: np.random.Generator) -> Made:
    """Return random walks of 300 points around six others, a tenth of the labels drawn anew."""
    means, y = np.cumsum(rng.normal(size=(6, 300)), axis=1), rng.integers(0, 6, 2000)
    X = 0.7 * means[y] + 0.8 * np.cumsum(rng.normal(size=(2000, 300)), axis=1) + 0.01 * rng.normal(size=(2000, 300))
    return X, np.where(rng.random(2000) < 0.1, rng.integers(0, 6, 2000), y)


def onehot(rng: np.random.Generator) -> Made:
    """Return codes of ten categories of 4 to 29 values."""
    X = np.hstack([np.eye(size)[rng.integers(0, size, 4000)] for size in rng.integers(4, 30, 10)])
    return csr_matrix(X), labels_of(X, 5, rng, 0.5)


def heavy(rng: np.random.Generator) -> Made:
    """Return features without a variance."""
    X = rng.standard_cauchy((3000, 30))
    return X, labels_of(np.arctan(X), 3, rng, 0.3)


def counts(rng: np.random.Generator) -> Made:
    """Return counts of 2000 words in texts of six kinds and of very different length."""
    rates, y = rng.lognormal(-4.0, 1.5, size=(6, 2000)), rng.integers(0, 6, 3000)
    return csr_matrix(rng.poisson(rates[y] * np.exp(rng.normal(size=(3000, 1)))).astype(float)), y


def rare(rng: np.random.Generator) -> Made:
    """Return two classes, one of 2.5 %, features of five orders of magnitude."""
    Z = rng.normal(size=(5000, 20))
    return Z * 10.0 ** rng.uniform(-2.0, 3.0, 20), (Z @ rng.normal(size=20) > 9.0).astype(int)


def sixty(rng: np.random.Generator) -> Made:
    """Return sixty classes."""
    y = rng.integers(0, 60, 3000)
    return 1.2 * rng.normal(size=(60, 40))[y] + rng.normal(size=(3000, 40)), y


def genes(rng: np.random.Generator) -> Made:
    """Return 200 rows, 5000 skewed features, 50 of them with a meaning."""
    X, y = np.exp(1.5 * rng.normal(size=(200, 5000)) + 2.0 * rng.normal(size=5000)), rng.integers(0, 4, 200)
    X[:, :50] *= 1.0 + y[:, None]
    return X, y


def repeats(rng: np.random.Generator) -> Made:
    """Return every row three times, the last with other labels now and then."""
    X = rng.normal(size=(2000, 15))
    y = labels_of(X, 3, rng, 0.2)
    other = np.where(rng.random(2000) < 0.3, rng.integers(0, 3, 2000), y)
    return np.vstack([X, X, X]), np.concatenate([y, y, other])


def dates(rng: np.random.Generator) -> Made:
    """Return nothing but seconds since 1970, of spreads from hours to years."""
    Z = rng.normal(size=(2000, 6))
    return 1.6e9 + Z * np.array([1e5, 1e6, 1e7, 3e4, 1e8, 86400.0]), labels_of(Z, 3, rng, 0.3)


def money(rng: np.random.Generator) -> Made:
    """Return skewed amounts from 1e-5 to 1e6."""
    Z = rng.normal(size=(4000, 25))
    return np.exp(Z * rng.uniform(0.1, 2.5, 25)) * 10.0 ** rng.uniform(-5.0, 6.0, 25), labels_of(Z, 2, rng, 0.5)


def random(rng: np.random.Generator) -> Made:
    """Return labels that mean nothing."""
    return 50.0 * rng.normal(size=(3000, 10)), rng.integers(0, 4, 3000)


def survey(rng: np.random.Generator) -> Made:
    """Return answers from 1 to 7."""
    X = rng.integers(1, 8, size=(3000, 60)).astype(float)
    return X, labels_of(X, 5, rng, 0.4)


def edge(rng: np.random.Generator) -> Made:
    """Return random labels of twice as many rows as features: just separable, or just not."""
    return 20.0 * rng.normal(size=(1000, 500)), rng.integers(0, 2, 1000)


def poly(rng: np.random.Generator) -> Made:
    """Return all products of twenty features of different size."""
    Z = rng.normal(size=(3000, 20)) * 10.0 ** rng.uniform(-1.0, 1.5, 20)
    X = PolynomialFeatures(2, include_bias=False).fit_transform(Z)
    return X, labels_of(X, 4, rng, 0.1)


def fourier(rng: np.random.Generator) -> Made:
    """Return 500 random cosines of eight features."""
    Z = rng.normal(size=(4000, 8))
    X = np.cos(Z @ rng.normal(size=(8, 500)) + rng.uniform(0.0, 2.0 * np.pi, 500))
    return X, (np.floor(2.0 * Z[:, 0]) + np.floor(Z[:, 1])).astype(int) % 5


def hashed(rng: np.random.Generator) -> Made:
    """Return 20,000 hashed words."""
    X = random_sparse(4000, 20_000, 0.002, random_state=3, format="csr")
    X.data = np.ceil(20.0 * X.data)
    return X, np.asarray((X @ rng.normal(size=(20_000, 10))).argmax(axis=1)).ravel()


def copies(rng: np.random.Generator) -> Made:
    """Return three features forty times, each with a little noise."""
    Z = rng.normal(size=(5000, 3))
    return 100.0 * (np.hstack([Z] * 40) + 1e-4 * rng.normal(size=(5000, 120))), labels_of(Z, 3, rng, 0.2)


def trend(rng: np.random.Generator) -> Made:
    """Return a time, its powers, and waves."""
    t = np.arange(6000.0)
    X = np.column_stack([t, t**2, 1000.0 * np.sin(t / 50.0), np.cos(t / 7.0), rng.normal(size=6000), np.sqrt(t)])
    return X, (t // 1000 % 2).astype(int) + 2 * (rng.random(6000) < 0.2)


def zeros(rng: np.random.Generator) -> Made:
    """Return amounts that are mostly zero."""
    X = (rng.random((2500, 150)) < 0.3) * rng.lognormal(2.0, 2.0, size=(2500, 150))
    return X, labels_of(np.log1p(X), 8, rng, 0.3)


def stamp(rng: np.random.Generator) -> Made:
    """Return a date in seconds and a year beside eight features."""
    return _offset(rng, [1.6e9, 2012.0], [1e7, 7.0], 3)


def stamps(rng: np.random.Generator) -> Made:
    """Return three dates and a year beside six features."""
    return _offset(rng, [1.6e9, 2012.0, 1.5e9, 1.7e9], [1e7, 7.0, 1e5, 3e6], 3)


def sensor(rng: np.random.Generator) -> Made:
    """Return temperatures, pressures: spreads of 1e-6 to 1e-2 of the mean."""
    return _offset(rng, [300.0, 1013.0, 101_325.0, 50.0, 1e4], [1e-3, 1e-2, 0.1, 1.0, 5.0], 4)


def coords(rng: np.random.Generator) -> Made:
    """Return places of one town, in degrees and in metres."""
    return _offset(rng, [48.85, 2.35, 5.4e6, 4.5e5], [0.01, 0.01, 800.0, 900.0], 3)


def ids(rng: np.random.Generator) -> Made:
    """Return a number of an account, a flag, two features."""
    Z = rng.normal(size=(2000, 3))
    X = np.column_stack([1e12 + 17.0 * np.arange(2000), 3.0 * Z[:, 0], Z[:, 1] > 0.0, 1e-6 * Z[:, 2]])
    return X, labels_of(Z, 2, rng, 0.3)


def _offset(rng: np.random.Generator, means: list[float], spreads: list[float], k: int) -> Made:
    """Return ten features, the first ones with these means and spreads."""
    Z = rng.normal(size=(2000, 10))
    X = Z.copy()
    X[:, : len(means)] = np.array(means) + Z[:, : len(means)] * spreads
    return X, labels_of(Z, k, rng, 0.3)


SETS: tuple[Callable[[np.random.Generator], Made], ...] = (
    lowrank, curves, onehot, heavy, counts, rare, sixty, genes, repeats, dates, money, random, survey,
    edge, poly, fourier, hashed, copies, trend, zeros, stamp, stamps, sensor, coords, ids,
)  # fmt: skip


def rounded(X: Array, digits: int) -> Array:
    """Return numbers of so many significant digits."""
    size = np.ceil(np.log10(np.where(X == 0.0, 1.0, np.abs(X))))
    return np.asarray(np.round(X * 10.0 ** (digits - size)) / 10.0 ** (digits - size))


def main(folder: Path) -> None:
    """Write all sets."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, make in enumerate(SETS):
        name = make.__name__
        X, y = make(np.random.default_rng(seed))
        X = X if issparse(X) else rounded(np.asarray(X, dtype=float), DIGITS.get(name, 4))
        dump_svmlight_file(X, y, str(folder / f"{name}.libsvm"), zero_based=False)
        sys.stdout.write(f"{name}: {X.shape[0]} rows, {X.shape[1]} features, {len(np.unique(y))} classes\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
