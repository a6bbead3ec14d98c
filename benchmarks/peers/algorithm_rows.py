"""Rows of the algorithms around attention, their arrays, and what is right."""

from dataclasses import dataclass, replace

import numpy as np

from rows import aligned, empty


def normal(*shape):
    array = empty(shape)
    np.random.default_rng(1).standard_normal(out=array, dtype=np.float32)
    return array


class Largest:
    """Judges by the largest difference from what is expected."""

    def __init__(self, expected, most):
        self.expected, self.most = expected, most

    def difference(self, out):
        return float(np.abs(out - self.expected).max())

    def accepts(self, difference):
        return difference <= self.most


@dataclass(frozen=True)
class Row:
    name: str
    dropout = 0.0
    fold = False


@dataclass(frozen=True)
class SoftmaxRow(Row):
    rows: int = 4096
    columns: int = 4096
    axis: int = 1
    is_log: bool = False

    bound_by_reading = True
    unit = "GB/s"

    def quick(self):
        return replace(self, rows=self.rows // 16)

    def work(self):
        """Bytes read and written once."""
        return 2.0 * 4 * self.rows * self.columns

    def make_problem(self):
        return SoftmaxProblem(normal(self.rows, self.columns), self.axis, self.is_log)


@dataclass(frozen=True)
class SoftmaxProblem:
    x: np.ndarray
    axis: int
    is_log: bool

    def make_judge(self):
        x = self.x.astype(np.float64)
        x -= x.max(axis=self.axis, keepdims=True)
        sums = np.exp(x).sum(axis=self.axis, keepdims=True)
        # Results of softmax are below 1, those of log_softmax below 16 in magnitude.
        return Largest(x - np.log(sums), 1e-5) if self.is_log else Largest(np.exp(x) / sums, 1e-6)


@dataclass(frozen=True)
class KMeansRow(Row):
    """Ten iterations of Lloyd's algorithm on points without structure, from the first k of them."""

    n: int = 0
    d: int = 0
    k: int = 0
    iterations: int = 10

    bound_by_reading = False
    unit = "GFLOP/s"

    def quick(self):
        return replace(self, n=self.n // 16)

    def work(self):
        """Of the products of points and centres."""
        return 2.0 * self.n * self.d * self.k * self.iterations

    def make_problem(self):
        x = normal(self.n, self.d)
        return KMeansProblem(x, aligned(x[: self.k]), self.iterations)


@dataclass(frozen=True)
class KMeansProblem:
    x: np.ndarray
    centers: np.ndarray
    iterations: int

    def make_judge(self):
        return KMeansJudge(self)


class KMeansJudge:
    """Compares the sum of squared distances to the centres with that of Lloyd's algorithm in double precision: of the centres
    themselves little can be said, since one point that chose differently moves them."""

    LARGEST_DIFFERENCE = 1e-4
    BLOCK = 4096  # points at a time

    def __init__(self, problem):
        self.x = problem.x
        centers = problem.centers.astype(np.float64)
        for _ in range(problem.iterations):
            labels = self.nearest(centers)[0]
            order = np.argsort(labels, kind="stable")
            clusters, starts = np.unique(labels[order], return_index=True)
            sums = np.add.reduceat(self.x[order].astype(np.float64), starts)
            centers[clusters] = sums / np.diff(np.append(starts, len(labels)))[:, None]
        self.expected = self.nearest(centers)[1]

    def nearest(self, centers):
        """Labels, and the sum of squared distances."""
        labels, inertia = np.empty(len(self.x), np.int64), 0.0
        for begin in range(0, len(self.x), self.BLOCK):
            x = self.x[begin : begin + self.BLOCK].astype(np.float64)
            distances = (centers**2).sum(axis=1) - 2 * x @ centers.T + (x**2).sum(axis=1)[:, None]
            labels[begin : begin + len(x)] = distances.argmin(axis=1)
            inertia += distances.min(axis=1).sum()
        return labels, inertia

    def difference(self, centers):
        return float(abs(self.nearest(centers.astype(np.float64))[1] / self.expected - 1))

    def accepts(self, difference):
        return difference <= self.LARGEST_DIFFERENCE


@dataclass(frozen=True)
class AdamRow(Row):
    parameters: int = 10_000_000
    tensors: int = 1
    amsgrad: bool = False

    bound_by_reading = True
    unit = "GB/s"

    def quick(self):
        return replace(self, parameters=self.parameters // 16)

    def work(self):
        """Bytes of parameter, gradient and moments, read once, and written but for the gradient."""
        return (36.0 if self.amsgrad else 28.0) * self.parameters

    def make_problem(self):
        params, grads = (np.split(normal(self.parameters), self.tensors) for _ in range(2))
        return AdamProblem(params, grads, self.amsgrad)


@dataclass(frozen=True)
class AdamProblem:
    params: list
    grads: list
    amsgrad: bool

    def make_judge(self):
        """The first step takes lr off each parameter, in the direction of its gradient."""
        p, g = (np.concatenate(each).astype(np.float64) for each in (self.params, self.grads))
        return Largest(p - 1e-3 * g / (np.abs(g) + 1e-8), 1e-6)


ROWS = [
    SoftmaxRow("softmax 4096 x 4096, last axis"),
    SoftmaxRow("softmax 4096 x 4096, first axis", axis=0),
    SoftmaxRow("log_softmax 4096 x 4096", is_log=True),
    KMeansRow("k-means n 100k, d 64, k 256", n=100_000, d=64, k=256),
    KMeansRow("k-means n 100k, d 128, k 1024", n=100_000, d=128, k=1024),
    KMeansRow("k-means n 1M, d 2, k 8", n=1_000_000, d=2, k=8),
    KMeansRow("k-means n 200k, d 16, k 64", n=200_000, d=16, k=64),
    KMeansRow("k-means n 20k, d 784, k 10", n=20_000, d=784, k=10),
    AdamRow("Adam, 10 M parameters"),
    AdamRow("Adam, 10 M parameters in 1000 tensors", tensors=1000),
    AdamRow("AMSGrad, 10 M parameters", amsgrad=True),
]
