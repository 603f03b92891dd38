"""Least squares over a few terms, without a library."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fit:
    """`y` is about the sum of coefficients times terms."""

    coefficients: list[float]
    # Of each observation: how far the fit is off, as a share of what was measured.
    errors: list[float]

    def at(self, terms: Sequence[float]) -> float:
        return sum(c * x for c, x in zip(self.coefficients, terms, strict=True))

    @property
    def error_mean(self) -> float:
        return sum(map(abs, self.errors)) / len(self.errors)

    @property
    def error_max(self) -> float:
        return max(map(abs, self.errors))


def fit(terms: Sequence[Sequence[float]], y: Sequence[float]) -> Fit:
    """Makes the relative errors small: absolute ones would let the largest bodies decide alone. No term
    may save work: one whose coefficient would be negative is left out, the worst first."""
    used = list(range(len(terms[0])))
    while True:
        # Each observation divided by what was measured: the wanted value is 1.
        scaled = [[row[term] / value for term in used] for row, value in zip(terms, y, strict=True)]
        found = _solve(scaled)
        worst = min(range(len(found)), key=found.__getitem__)
        if found[worst] >= 0 or len(used) == 1:
            break
        del used[worst]
    coefficients = [0.0] * len(terms[0])
    for term, value in zip(used, found, strict=True):
        coefficients[term] = value
    whole = Fit(coefficients, [])
    errors = [whole.at(row) / value - 1 for row, value in zip(terms, y, strict=True)]
    return Fit(coefficients, errors)


def _solve(rows: list[list[float]]) -> list[float]:
    """The normal equations of `rows · c = 1`, by elimination with pivots. Terms that the observations
    cannot tell apart get 0."""
    count = len(rows[0])
    matrix = [
        [sum(row[i] * row[j] for row in rows) for j in range(count)] + [sum(row[i] for row in rows)]
        for i in range(count)
    ]
    pivots: list[int] = []
    for column in range(count):
        free = [i for i in range(count) if i not in pivots]
        pivot = max(free, key=lambda i: abs(matrix[i][column]))
        scale = max(abs(row[column]) for row in matrix) or 1.0
        if abs(matrix[pivot][column]) <= 1e-9 * scale:
            pivots.append(-1 - column)
            continue
        pivots.append(pivot)
        for i in range(count):
            if i != pivot:
                factor = matrix[i][column] / matrix[pivot][column]
                matrix[i] = [a - factor * b for a, b in zip(matrix[i], matrix[pivot], strict=True)]
    return [
        matrix[pivot][count] / matrix[pivot][column] if pivot >= 0 else 0.0
        for column, pivot in enumerate(pivots)
    ]
