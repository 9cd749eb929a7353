"""The objectives of SVMs in 200-bit arithmetic, straight from their definitions: the judges of the judge."""

from mpmath import exp, mp, mpf

BITS = 200


def numbers(values):
    """Return a matrix or a vector of floats as exact numbers."""
    if hasattr(values, "toarray"):
        values = values.toarray()
    return [numbers(row) for row in values] if getattr(values, "ndim", 1) == 2 else [mpf(float(v)) for v in values]


def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), mpf(0))


def kernel_value(kernel, a, b, bias):
    """Return k(a, b) + bias^2."""
    name, constant = kernel.name, mpf(bias) ** 2
    if name == "linear":
        return dot(a, b) + constant
    if name == "rbf":
        return exp(-mpf(kernel.gamma) * sum(((x - y) ** 2 for x, y in zip(a, b, strict=True)), mpf(0))) + constant
    if name == "laplacian":
        return exp(-mpf(kernel.gamma) * sum((abs(x - y) for x, y in zip(a, b, strict=True)), mpf(0))) + constant
    assert name == "polynomial"
    return (mpf(kernel.gamma) * dot(a, b) + mpf(kernel.coef0)) ** int(kernel.degree) + constant


def gram(kernel, X, bias):
    """Return K as rows of exact numbers."""
    rows = numbers(X)
    return [[kernel_value(kernel, a, b, bias) for b in rows] for a in rows]


def loss(multiclass, scores, label):
    """Return the hinge of one sample."""
    hinges = [1 + s - scores[label] for c, s in enumerate(scores) if c != label]
    return sum((max(h, mpf(0)) for h in hinges), mpf(0)) if multiclass == "weston_watkins" else max(mpf(0), *hinges)


def losses(problem, scores):
    """Return sum_i C_i l_i of a joint SVM."""
    rows = zip(numbers(problem.C), scores, problem.y, strict=True)
    return sum((c * loss(problem.multiclass, s, int(label)) for c, s, label in rows), mpf(0))


def linear_primal(problem, W):
    """Return P(W) of a linear joint SVM."""
    rows = [[*row, mpf(problem.bias)] for row in numbers(problem.X)]
    columns = list(zip(*numbers(W), strict=True))
    scores = [[dot(row, column) for column in columns] for row in rows]
    return sum((dot(column, column) for column in columns), mpf(0)) / 2 + losses(problem, scores)


def feasible(multiclass, row, label, C):
    """Return an exactly feasible dual row within rounding of a float one: the label's entry balances the others."""
    rest = [max(min(v, mpf(0)), -C) if multiclass == "weston_watkins" else min(v, mpf(0)) for v in row]
    rest[label] = mpf(0)
    total = -sum(rest, mpf(0))
    if multiclass == "crammer_singer" and total > C:
        rest = [v * C / total for v in rest]
        total = C
    rest[label] = total
    return rest


def joint_dual(problem, K, alpha):
    """Return D at the exactly feasible rows that alpha stands for."""
    C = numbers(problem.C)
    rows = [feasible(problem.multiclass, row, int(problem.y[i]), C[i]) for i, row in enumerate(numbers(alpha))]
    own = sum((row[int(label)] for row, label in zip(rows, problem.y, strict=True)), mpf(0))
    return own - quadratic(K, rows) / 2


def quadratic(K, rows):
    """Return <alpha, K alpha>."""
    columns = list(zip(*rows, strict=True))
    return sum((dot(column, [dot(line, column) for line in K]) for column in columns), mpf(0))


def kernel_primal(problem, K, alpha, intercept=None):
    """Return P at a kernel model."""
    rows = numbers(alpha)
    columns = list(zip(*rows, strict=True))
    scores = [[dot(line, column) for column in columns] for line in K]
    return quadratic(K, rows) / 2 + losses(problem, scores)


def l2_primal(problem, K, signed, bias):
    """Return P of a squared hinge SVM at dual variables with their signs, and a bias."""
    u, y, C = numbers(signed), numbers(problem.y), numbers(problem.C)
    F = [dot(line, u) for line in K]
    xi = [max(1 - t * (f + mpf(float(bias))), mpf(0)) for t, f in zip(y, F, strict=True)]
    return dot(u, F) / 2 + sum((c * v**2 for c, v in zip(C, xi, strict=True)), mpf(0)) / 2


def l2_dual(problem, K, alpha):
    """Return D at the exactly feasible point that alpha stands for: the heavier side scaled down."""
    y, C = numbers(problem.y), numbers(problem.C)
    a = [max(v, mpf(0)) if c > 0 else mpf(0) for v, c in zip(numbers(alpha), C, strict=True)]
    if problem.has_bias:
        up = sum((v for v, t in zip(a, y, strict=True) if t > 0), mpf(0))
        down = sum((v for v, t in zip(a, y, strict=True) if t < 0), mpf(0))
        less = min(up, down)
        a = [v * less / (up if t > 0 else down) if v else v for v, t in zip(a, y, strict=True)]
    u = [t * v for t, v in zip(y, a, strict=True)]
    ridge = sum((v**2 / c for v, c in zip(a, C, strict=True) if c > 0), mpf(0))
    return sum(a, mpf(0)) - dot(u, [dot(line, u) for line in K]) / 2 - ridge / 2


mp.prec = BITS
