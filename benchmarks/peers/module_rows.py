"""Rows of the multi-head attention module: projections, attention, output projection."""

from dataclasses import dataclass, replace

import numpy as np

from rows import Judge, Problem, empty, shrunk


@dataclass(frozen=True)
class ModuleRow:
    """float32 self attention of all tokens to all, without biases."""

    name: str
    batch: int
    length: int
    model_dim: int
    heads: int

    bound_by_reading = False
    unit = "GFLOP/s"
    dropout = 0.0
    fold = False

    def quick(self):
        return replace(self, length=shrunk(self.length))

    def work(self):
        """Additions and multiplications of the four projections and of both products of attention."""
        tokens = self.batch * self.length
        return 2.0 * tokens * 4 * self.model_dim**2 + 2.0 * tokens * self.length * 2 * self.model_dim

    def make_problem(self):
        random = np.random.default_rng(1)

        def normal(*shape):
            array = empty(shape)
            random.standard_normal(out=array, dtype=np.float32)
            return array

        # Projections of normal numbers are then about normal too.
        scale = np.float32(self.model_dim**-0.5)
        w_in, w_out = normal(3 * self.model_dim, self.model_dim), normal(self.model_dim, self.model_dim)
        w_in *= scale
        w_out *= scale
        return ModuleProblem(normal(self.batch, self.length, self.model_dim), self.heads, w_in, w_out)


ROWS = [
    ModuleRow("module 1 x 1024, model_dim 512, 8 heads", batch=1, length=1024, model_dim=512, heads=8),
    ModuleRow("module 8 x 128, model_dim 768, 12 heads", batch=8, length=128, model_dim=768, heads=12),
    ModuleRow("module 8 x 128, model_dim 384, 12 heads", batch=8, length=128, model_dim=384, heads=12),  # of MiniLM
]


@dataclass(frozen=True)
class ModuleProblem:
    """Arrays, dense, which all participants share."""

    x: np.ndarray  # (batch, len, model_dim)
    heads: int
    w_in: np.ndarray  # (3 * model_dim, model_dim): of queries, keys and values
    w_out: np.ndarray  # (model_dim, model_dim)

    @property
    def in_weights(self):
        """Of queries, keys, values, each (out, in)."""
        return np.split(self.w_in, 3)

    def make_judge(self):
        return ModuleJudge(self)


class ModuleJudge(Judge):
    """Knows y in double precision: attention by its definition between projections by theirs."""

    def __init__(self, problem):
        x, w_out = problem.x.astype(np.float64), problem.w_out.astype(np.float64)
        batch, length, _ = x.shape

        def heads_of(w):
            return (x @ w.astype(np.float64).T).reshape(batch, length, problem.heads, -1).transpose(0, 2, 1, 3)

        super().__init__(Problem(*map(heads_of, problem.in_weights)))
        self.expected = self.expected.transpose(0, 2, 1, 3).reshape(batch, length, -1) @ w_out.T
