"""Who finishes where the solver of ``auto`` stalls, and how much that costs beside a step of the first one.

    kind            first            who finishes
    linear hinge    block descent    descent on inner products, where there are many weights for the rows, and rows
                                     share features. Where it stalls, too, and else at once, the interior point, where
                                     its Newton matrix is small enough, or Newton's method on smoothed hinges, with
                                     Crammer-Singer and where a factor of this matrix is dear, or where C |x|^2 is
                                     large as well the interior point from a path of them; of two classes the augmented
                                     Lagrangian, where C |x|^2 is not absurd
    linear squared  dual descent     Newton's method, by samples where products with X would take more work
    softmax ridge   dual descent     Newton's method by conjugate gradients, where X is dense, or has no more features
                                     than rows and three classes or more
    softmax l1      proximal Newton  the interior point, where there is room for a matrix per class
    l1 ball         gradient steps   Newton's method, where features are too few for a working set of them
    trace ball      gradient steps   where the loss charges every score by itself: Newton's method for one column; the
                                     interior point, or where its factor is dear Newton's method with a matrix per class

Works are counted in multiplications as fast as those of BLAS, before the first step, from the sizes of the problem:
the same problem hands over after the same step on every machine (``solvers.hand_over``). Block descent needs passes in
proportion to C |x|^2 where classes overlap, and far fewer where they are separable; where even these would be too many,
the finisher starts at once.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpstrf

from softmargin.core.threads import n_threads
from softmargin.matrices.operator import mean_square

__all__ = ["Finisher", "FinisherTuning", "finisher_of"]


class FinisherTuning(NamedTuple):
    """Works by timings on one core, in multiplications of BLAS; docs/design.md."""

    # Descent on inner products, with three and more classes: rows for a weight, at most (pixels of mnist in squares of
    # four, 1764 weights, gain or lose at 2.3; 400 pixels gain at 3.1, gain or lose at 3.6, 784 gain at 2.4; where 12
    # and more are, all lose), rows (of mnist 17,000 gain, 20,000 take twice as long), classes (leaves100 takes 0.2 to
    # 1.9 times as
    # long), and weights, at least (autos, flags and bridges as they come, of 375 and fewer, take 2 s where the interior
    # point takes 0.1). The rank by so many rows, or times as many as the rank must be, and what rounding leaves of a
    # unit column; what a class takes for every pair of rows. Maths: linear SVM, section 13.
    rows_per_weight: float = 2.0
    rows_per_weight_of_many: float = 3.1
    many_weights: int = 3000
    most_rows: int = 17_000
    most_classes: int = 64
    least_weights: int = 1000
    rank_rows: int = 2000
    rank_share: int = 4
    rank_tol: float = 1e-10
    epochs: float = 10.0
    pair: float = 5000.0  # of an interior point step, for a row and a wrong class: 600 ns
    call: float = 5e6  # of an interior point step, for each class: 0.6 ms of calls
    steps: float = 30.0  # of an interior point to 1e-3: 6 to 40 on the data sets of benchmarks/hard
    dear_steps: float = 20.0  # the same where a factor serves lower targets: 17 to 21 on mnist
    path_steps: float = 12.0  # of the interior point, in the time of it and of its path: 11 on mnist, C = 1
    # Newton's method on smoothed hinges where a factor is dear, in steps of the interior point: mnist, 38 and 47 s
    # where that takes 91 and more than 110. Up to this mean C |x|^2, beyond which the interior point begins where their
    # path gets narrow: mnist, as long at 6e4, 50 s where each alone takes more than 100 at 6e6.
    smooth_steps: float = 9.0
    smooth_steepness: float = 1e6
    # The same where a factor is not dear, with Crammer-Singer: 10 to 26 on optdigits, satimage, segment, pendigits,
    # poker and avila. With fewer pairs of a row and a wrong class its calls take longer than steps of the other.
    joint_steepness: float = 1e7
    joint_steps: float = 20.0
    joint_pairs: float = 5000.0
    # Passes of block descent per unit of C |x|^2 on such data, where a row has more than this share of all features:
    # mnist in -1..1 takes 570 at 88, and is not done after 600 at 880.
    shared_passes: float = 1.0
    shared: float = 0.1
    newtons: float = 60.0  # Newton steps of an augmented Lagrangian to 1e-3: 20 to 130 on the same; by hand
    # Of such a step, in multiplications, beside its system: a number of an array, of which two products read all (and
    # ``scattered`` of sparse rows), a sample, and its calls, 75 us; timings.
    read: float = 6.0
    sample: float = 200.0
    newton_call: float = 1.5e6
    # The same of compiled steps, and the share of the squares of all samples, which they sum afresh.
    small_call: float = 2e4
    active: float = 0.25
    # Such a one starts at once where its whole work is at most so many passes of block descent, and C |x|^2 at least so
    # large, of classes with half the C each: 32 of 95 drawn sets of 1000 to 100,000 rows, which take 0.4 of their time
    # in the mean (one of blobs that are apart 1.5 times). With a smaller C it takes 1.6 times as long, but with many
    # rows, beside which its calls are nothing, 0.04 to 1.2 times (nine sets; 1.8 and 3.5 at C |x|^2 below 1).
    few_passes: float = 170.0
    steep: float = 10.0
    steep_of_many: float = 2.0
    many_rows: int = 20_000
    # The same of compiled steps, with a C |x|^2 as with many rows: 185 drawn sets of 50 to 20,000 rows, on which it was
    # not found, take 0.58 of their time in the mean, 12 of them 1.2 to 1.7 times as long.
    few_passes_of_small: float = 600.0
    guess: int = 4  # steps of block descent after which its estimates may tell that it stalls; by hand
    sums: float = 5.0  # of the squares of all rows in these
    # C |x|^2 for it, and for inner products: shares of 1 / (C |x|^2) drown in rounding; drawn extremes do from 1e14 on.
    steepest: float = 1e12
    passes: float = 0.002  # of block descent per unit of C |x|^2: the least that was seen, w8a at C = 1000
    scattered: float = 25.0  # of a number of a row in dual descent, of which a visit makes two; timings on news20
    solves: float = 12.0  # of Newton's method from a point of dual descent to 1e-3: 4 to 8, 34 on news20 at C = 100
    # Share of the samples in its systems: 0.03 to 0.15 on news20 and tdt2, raw, at C = 1 and 100, more on texts drawn
    # with few words, so that what descent finds counts where it is more.
    support: float = 0.1
    # Of the same with a matrix of features, where these are fewer than a share of the samples; solves from nothing:
    # 4 to 18 on most drawn texts and codes of categories, up to 44; by hand.
    few_features: float = 0.4
    feature_solves: float = 12.0
    # Passes of softmax dual descent in the time of newton_cg: 55 to 250 on mnist and isolet. With p threads it takes
    # about 1 / sqrt(p) of that: 1 / 1.6, 1 / 2.3 and 1 / 3.3 with 2, 4 and 16 on mnist, without their queue.
    newton_cg: float = 100.0
    newton_cg_of_few: float = 25.0  # the same of few features: 5 to 25 on drawn Gaussian classes and blobs
    few: int = 50
    # Of an interior point for l1 to 1e-3, in 6 to 31 steps (maths: softmax, section 8): what its products with X and X'
    # take in each step, in products of BLAS; and factors of a whole H, of this share of the entries.
    l1_products: float = 15.0
    l1_factors: float = 4.0
    l1_entries: float = 0.5
    # Passes in a step of proximal Newton; and how many it needs, where H is not written out, per unit of the strength
    # at which all weights are zero over that of the penalty: mnist as 0 to 255 has 3e5, and no end of them; isolet
    # has 26,000 at C = 100, and is done after 18 steps. And multiplications of BLAS in the time of one of a pass: 17 on
    # curves of 300 points.
    model_passes: float = 50.0
    l1_passes: float = 0.02
    loop: float = 10.0
    models: float = 15.0  # of Newton's method over a ball to 1e-3: 5 to 15 on the data sets of benchmarks/hard
    # Newton steps over a trace ball with more columns: 6 to 28 on isolet, segment, vehicle, letter and mnist; and the
    # share of samples with curvature in a class, of losses with flat parts: 0.05 to 0.15 on the same.
    class_models: float = 30.0
    curved: float = 0.1
    # Steps of an interior point over a trace ball: 1 to 51, 8 in the mean of 86 fits of 39 data sets; and the most work
    # that they may take, 1.2 s: beyond, Newton's method, which is not as sure, takes far less.
    barriers: float = 10.0
    most_barriers: float = 1e10
    landing: float = 2.5e6  # of a gradient step over a ball, beside its products: 0.3 ms of calls
    products: float = 8.0  # with X in such a step
    event: float = 5e5  # on the path of a model over an l1 ball; by hand: 120 to 300 us of a busy core by timings
    events: float = 2.0  # for every weight: 1 to 1.7 for one that is not zero, on nine raw data sets
    most_numbers: float = 2.5e8  # float64 numbers that a finisher may hold: 2 GB; by hand


class Finisher(NamedTuple):
    """The one that finishes."""

    name: str
    patience: float  # its whole work, in steps of the first solver, or in multiplications where that counts these
    is_hopeless: bool  # for the first solver: the finisher shall start at once
    then: "Finisher | None" = None  # who finishes where this one stalls, too
    unit: float = 1.0  # the work of a step of the first, where it counts its own
    support: float = 0.0  # share of the samples in its systems, where these are samples
    guess: int = 0  # steps of the first after which its estimates are looked at


TUNING = FinisherTuning()


def finisher_of(problem: Any, first: str, n_parts: int = 1) -> Finisher | None:
    """Return who finishes where ``first`` stalls on a problem of which there are ``n_parts``; None for nobody."""
    rule = FINISHERS.get((problem.kind, first))
    return None if rule is None else rule(problem, n_parts)


def _of_block_descent(problem: Any, n_parts: int, tuning: FinisherTuning = TUNING) -> Finisher | None:
    """Choose descent on inner products, or the interior point or a relative, which may follow it."""
    from softmargin.solvers.linear_svm.augmented_lagrangian import has_small_steps
    from softmargin.solvers.linear_svm.block_descent import pass_work, step_passes
    from softmargin.solvers.linear_svm.interior_work import is_factor_dear

    n, k = len(problem.y), problem.n_classes
    steepness = float(problem.C.mean()) * (mean_square(problem.X) + problem.bias**2)
    is_shared = problem.X.size > tuning.shared * problem.X.shape[0] * problem.X.shape[1]
    found, after = _of_newton_matrix(problem, n_parts, steepness, tuning), None
    if is_shared and steepness <= tuning.steepest and _is_wide(problem, tuning):
        after = None if found is None else Finisher(*found, is_hopeless=False)
        found = "gram_descent", n**2 * (0.5 * problem.X.shape[1] + tuning.epochs * k) + tuning.call * k
    if found is None:
        return None
    name, whole = found
    passes = whole / pass_work(problem)
    patience = passes / step_passes(problem)
    if name == "gram_descent":
        patience = max(patience, tuning.steps)
    is_hard = name.startswith("smoothed") and is_shared and is_factor_dear(problem)
    needed = (tuning.shared_passes if is_hard else tuning.passes) * steepness
    is_augmented, is_small = name == "augmented_lagrangian", has_small_steps(problem)
    steep = tuning.steep if n < tuning.many_rows and not is_small else tuning.steep_of_many
    most = tuning.few_passes_of_small if is_small else tuning.few_passes
    is_cheap = is_augmented and passes <= most and steepness >= steep
    return Finisher(name, patience, is_cheap or needed > passes, after, guess=tuning.guess if is_augmented else 0)


def _of_newton_matrix(problem: Any, n_parts: int, steepness: float, tuning: FinisherTuning) -> tuple[str, float] | None:
    """Choose the interior point or a relative, which make a matrix of all unknowns; None where it is too large.

    Returns its name and its whole work.
    """
    from softmargin.solvers.linear_svm.augmented_lagrangian import has_small_steps
    from softmargin.solvers.linear_svm.interior_point import InteriorPoint
    from softmargin.solvers.linear_svm.interior_work import is_factor_dear, is_joint, step_work

    n, k, step, is_dear = len(problem.y), problem.n_classes, step_work(problem), is_factor_dear(problem)
    if step.unknowns > InteriorPoint.tuning.max_unknowns:
        return None
    if k == 2 and steepness <= tuning.steepest:
        D, entries = problem.X.shape[1] + 1.0, problem.X.size  # of an array or the nonzeros
        number = tuning.read if isinstance(problem.X, np.ndarray) else tuning.scattered
        newton = D**3 / 3.0 + 2.0 * number * entries + tuning.sample * n
        newton += tuning.active * n * D**2 + tuning.small_call if has_small_steps(problem) else tuning.newton_call
        whole = tuning.newtons * newton + tuning.sums * step.multiplications
        return None if tuning.most_numbers < 3.0 * D**2 else ("augmented_lagrangian", whole)
    if n_parts * step.numbers > tuning.most_numbers:
        return None
    is_many = is_joint(problem) and n * (k - 1) >= tuning.joint_pairs
    if is_dear and steepness <= tuning.smooth_steepness:
        name, steps = "smoothed_newton", tuning.smooth_steps
    elif is_dear and steepness <= tuning.steepest:
        name, steps = "smoothed_interior_point", tuning.path_steps
    elif is_many and not is_dear and steepness <= tuning.joint_steepness:
        name, steps = "smoothed_newton", tuning.joint_steps
    else:
        name, steps = "interior_point", tuning.dear_steps if is_dear else tuning.steps
    return name, steps * (step.multiplications + tuning.pair * n * (k - 1) + tuning.call * k)


def _is_wide(problem: Any, tuning: FinisherTuning) -> bool:
    """Say whether there are many weights for the rows: then few inner products decide.

    Features that others imply bring none: codes of categories, sums, repeated columns.
    """
    n, k = len(problem.y), problem.n_classes
    weights = problem.X.shape[1] * (k - 1)
    if not 2 < k <= tuning.most_classes or n > tuning.most_rows or weights < tuning.least_weights:
        return False
    most = tuning.rows_per_weight if weights < tuning.many_weights else tuning.rows_per_weight_of_many
    needed = math.ceil(n / (most * (k - 1)))
    return needed <= problem.X.shape[1] and _has_rank(problem.X, needed, tuning)


def _has_rank(X: Any, needed: int, tuning: FinisherTuning) -> bool:
    """Say whether some rows, evenly spaced, have this rank: by a factor of the inner products of unit columns."""
    some = X[:: max(X.shape[0] // min(tuning.rank_rows, tuning.rank_share * needed), 1)]
    some = some if isinstance(some, np.ndarray) else some.toarray()
    some = some[:, some.any(axis=0)].astype(np.float64)
    if min(some.shape) < needed:
        return False
    some /= np.abs(some).max(axis=0)  # squares of what follows are in range
    unit = some / np.linalg.norm(some, axis=0)
    products = unit.T @ unit if unit.shape[1] <= unit.shape[0] else unit @ unit.T
    return bool(dpstrf(products, tol=tuning.rank_tol, lower=True)[2] >= needed)


def _of_dual_descent(problem: Any, n_parts: int, tuning: FinisherTuning = TUNING) -> Finisher | None:
    """Choose Newton's method; each step factors a matrix of the samples with a loss, or of the features."""
    X = problem.gram.X
    support, whole = tuning.support, tuning.solves * (tuning.support * len(problem.y)) ** 3.0 / 3.0
    if X.shape[1] < tuning.few_features * X.shape[0]:
        support, whole = 0.0, _squared_newton_work(X)
    numbers = max((tuning.loop if isinstance(X, np.ndarray) else tuning.scattered) * X.size, 1.0)
    return Finisher("newton", max(whole / (2.0 * numbers), tuning.steps), is_hopeless=False, support=support)


def _squared_newton_work(X: Any, tuning: FinisherTuning = TUNING) -> float:
    """Return the multiplications of Newton's method for a squared hinge, with a matrix of features."""
    (n, d), entries = X.shape, float(X.size)
    making = min(n * (d + 1.0) ** 2, tuning.scattered * entries**2 / max(n, 1))
    return tuning.feature_solves * (making + (min(n, d) + 1.0) ** 3 / 3.0)


def _of_softmax_descent(problem: Any, n_parts: int, tuning: FinisherTuning = TUNING) -> Finisher | None:
    """Choose Newton's method by conjugate gradients, where dual descent was chosen for a modest C.

    Its products are divided among threads, and the passes of dual descent are not.
    """
    n, d = problem.X.shape
    is_narrow = isinstance(problem.X, np.ndarray) or (d <= n and not problem.is_pinned)
    passes = tuning.newton_cg if min(n, d) > tuning.few else tuning.newton_cg_of_few
    return Finisher("newton_cg", passes / math.sqrt(n_threads()), is_hopeless=False) if is_narrow else None


def _of_prox_newton(problem: Any, n_parts: int, tuning: FinisherTuning = TUNING) -> Finisher | None:
    """Choose the interior point; where more entries than H is written out for are in play, it may start at once."""
    from softmargin.solvers.softmax._class_grams import ClassGramTuning, affords_class_grams
    from softmargin.solvers.softmax.prox_newton import ProxNewton

    X, k = problem.X, problem.n_columns
    d, entries = X.shape[1], X.shape[1] * k
    if not affords_class_grams(d, k, ClassGramTuning()):
        return None
    product, squares = max(2.0 * k * X.size, 1.0), k * (0.5 * X.shape[0] + d / 6.0) * (d + 1.0) ** 2
    step = tuning.l1_products * product + squares + tuning.pair * X.shape[0] * k + tuning.call * k
    whole = tuning.steps * step
    if k > 1:
        whole += tuning.l1_factors * (tuning.l1_entries * entries) ** 3.0 / 6.0
    passes = whole / (tuning.loop * product)
    patience = max(passes / tuning.model_passes, tuning.steps)
    is_large = entries > ProxNewton().tuning.dense.most_needed
    needed = tuning.l1_passes * problem.largest_strength / problem.strength if is_large else 0.0
    is_hopeless = needed > tuning.model_passes * patience
    return Finisher("interior_point", patience, is_hopeless, unit=passes / patience)


def _of_sparse_steps(problem: Any, n_parts: int, tuning: FinisherTuning = TUNING) -> Finisher | None:
    """Choose Newton's method with one matrix per class, where the steps are those on all features."""
    from softmargin.solvers.ball import low_rank_newton
    from softmargin.solvers.ball.working_set import BallWorkingSetTuning

    X, (d, k), rounds = problem.X, problem.shape, BallWorkingSetTuning()
    is_wide = rounds.first_size <= rounds.largest_share * d
    if is_wide or problem.loss.is_joint or not problem.loss.curvature < math.inf:
        return None
    if k * float(d) ** 2 > tuning.most_numbers:
        return None
    model = low_rank_newton.step_work(_curved(problem, tuning), d, k) + tuning.event * tuning.events * d * k
    entries = X.size if isinstance(X, np.ndarray) else tuning.scattered * X.nnz
    patience = tuning.models * model / (tuning.landing + max(tuning.products, 2.0 * k) * entries)
    return Finisher("newton", max(patience, tuning.steps), is_hopeless=False)


def _curved(problem: Any, tuning: FinisherTuning) -> float:
    """Count the samples with curvature in a class."""
    has_flats = np.isfinite(getattr(getattr(problem.loss, "compiled", None), "high", np.inf))
    return (tuning.curved if has_flats else 1.0) * float(problem.X.shape[0])


def _of_gradient_steps(problem: Any, n_parts: int, tuning: FinisherTuning = TUNING) -> Finisher | None:
    """Choose Newton's method for one column of weights; for more the interior point, or one matrix per class."""
    from softmargin.solvers.ball import low_rank_newton, newton, trace_interior_point

    X, k, unknowns = problem.X, problem.shape[1], min(problem.X.shape)
    if problem.loss.is_joint or max(k, 3.0) * unknowns**2 > tuning.most_numbers:
        return None
    if k == 1:
        name, whole = "newton", tuning.models * newton.step_work(*X.shape)
    else:
        n_curved = _curved(problem, tuning)
        name, whole = "interior_point", tuning.barriers * trace_interior_point.step_work(n_curved, unknowns, k)
        if whole > tuning.most_barriers:
            name, whole = "newton_cg", tuning.class_models * low_rank_newton.step_work(n_curved, unknowns, k)
    entries = X.size if isinstance(X, np.ndarray) else tuning.scattered * X.nnz
    patience = whole / (tuning.landing + tuning.products * entries)
    return Finisher(name, max(patience, tuning.steps), is_hopeless=False)


FINISHERS: dict[tuple[str, str], Callable[[Any, int], Finisher | None]] = {
    ("linear hinge", "block_descent"): _of_block_descent,
    ("linear squared_hinge", "dual_descent"): _of_dual_descent,
    ("softmax ridge", "dual_descent"): _of_softmax_descent,
    ("softmax l1", "prox_newton"): _of_prox_newton,
    ("l1 ball", "working_set"): _of_sparse_steps,
    ("trace ball", "accelerated_gradient"): _of_gradient_steps,
}
