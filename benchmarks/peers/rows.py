"""What is compared: the rows, their arrays, and what is right."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Row:
    """float32 attention of one shape."""

    name: str
    batch: int = 1
    q_heads: int = 8
    kv_heads: int = 8
    q_len: int = 2048
    kv_len: int = 2048
    head_dim: int = 64
    value_dim: int = 64
    causal: bool = False  # bottom-right: the last query sees all keys
    as_mask: bool = False  # the same, but said by nothing but a bool mask (q_len, kv_len)
    dropout: float = 0.0
    # So few queries that a peer without fast grouped heads may as well be given the heads of a group as queries of one
    # head, which needs no copy; both ways are measured.
    fold: bool = False

    def quick(self):
        """A shape small enough to try the machinery on."""
        return replace(self, q_len=shrunk(self.q_len), kv_len=shrunk(self.kv_len))

    @property
    def bound_by_reading(self):
        """One query per sequence does little with each key: the work is to read K and V."""
        return self.q_len == 1

    @property
    def unit(self):
        return "GB/s of K+V" if self.bound_by_reading else "GFLOP/s"

    def work(self):
        """Bytes of K and V, or additions and multiplications of both products over the pairs that are seen."""
        if self.bound_by_reading:
            return 4.0 * self.batch * self.kv_heads * self.kv_len * (self.head_dim + self.value_dim)
        pairs = self.q_len * self.kv_len
        if self.causal or self.as_mask:
            pairs = int(triangle(self.q_len, self.kv_len).sum())
        return 2.0 * self.batch * self.q_heads * pairs * (self.head_dim + self.value_dim)

    def make_problem(self):
        random = np.random.default_rng(1)

        def normal(heads, length, dim):
            array = empty((self.batch, heads, length, dim))
            random.standard_normal(out=array, dtype=np.float32)
            return array

        return Problem(
            q=normal(self.q_heads, self.q_len, self.head_dim),
            k=normal(self.kv_heads, self.kv_len, self.head_dim),
            v=normal(self.kv_heads, self.kv_len, self.value_dim),
            causal=self.causal,
            mask=aligned(triangle(self.q_len, self.kv_len)) if self.as_mask else None,
            dropout=self.dropout,
        )


def shrunk(length):
    return length // 8 if length > 16 else length


GROUPED = Row("", q_heads=32, kv_heads=8, head_dim=128, value_dim=128)  # as in language models of 8 billion weights

ROWS = [
    Row("full 2048, D 64"),
    Row("full 2048, D 128", head_dim=128, value_dim=128),
    Row("causal 2048, D 64", causal=True),
    Row("causal 512, D 64", q_len=512, kv_len=512, causal=True),
    Row("batch 8 x 12 heads, 128, D 64", batch=8, q_heads=12, kv_heads=12, q_len=128, kv_len=128),
    Row("causal 2048 as a bool mask, D 64", as_mask=True),
    Row("causal 2048, dropout 0.1, D 64", causal=True, dropout=0.1),
    Row("full 2048, D 64, values 128", value_dim=128),
    replace(GROUPED, name="causal 1024, heads 32/8, D 128", q_len=1024, kv_len=1024, causal=True),
    replace(GROUPED, name="append 16 on 8192, heads 32/8, D 128", q_len=16, kv_len=8192, causal=True, fold=True),
    replace(GROUPED, name="decode 1 on 32768, heads 32/8, D 128", q_len=1, kv_len=32768, fold=True),
]


def triangle(q_len, kv_len):
    return np.tril(np.ones((q_len, kv_len), bool), kv_len - q_len)


def empty(shape, dtype=np.float32):
    """Aligned to a cache line, as every one of the libraries would allocate it."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(count + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count].view(dtype).reshape(shape)


def aligned(array):
    copy = empty(array.shape, array.dtype)
    copy[...] = array
    return copy


@dataclass(frozen=True)
class Problem:
    """Arrays (batch, heads, len, dim), dense, which all participants share."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    causal: bool = False  # bottom-right
    mask: np.ndarray | None = None  # (q_len, kv_len) in place of causal
    dropout: float = 0.0

    @property
    def out_shape(self):
        return self.q.shape[:3] + self.v.shape[3:]

    @property
    def square(self):
        """Where both alignments of the diagonal are one, a peer's own causal can be used."""
        return self.q.shape[2] == self.k.shape[2]

    @property
    def mask_for_top_left(self):
        """For those whose own causal is aligned top-left."""
        if self.causal and not self.square:
            return triangle(self.q.shape[2], self.k.shape[2])
        return self.mask

    def folded(self):
        """The same with the heads of a group as queries of one head."""
        batch, q_heads, q_len, dim = self.q.shape
        group = q_heads // self.k.shape[1]
        mask = self.mask_for_top_left
        return replace(
            self,
            q=self.q.reshape(batch, -1, group * q_len, dim),
            causal=False,
            mask=None if mask is None else aligned(np.tile(mask, (group, 1))),
        )

    def make_judge(self):
        return Judge(self)


class Judge:
    """Knows the result in double precision, computed head by head as the definition has it."""

    # float32 is off by about 1e-6 in these rows, bfloat16 inside by at least 1e-4: both were seen.
    LARGEST_DIFFERENCE = 1e-5
    # Under dropout, over thousands of rows. Without the division by 1 - dropout the scale is off by 0.1, without dropout
    # the variance by 1.
    LARGEST_SCALE_ERROR, LARGEST_VARIANCE_ERROR = 0.02, 0.1

    def __init__(self, problem):
        q_len, kv_len = problem.q.shape[2], problem.k.shape[2]
        visible = triangle(q_len, kv_len) if problem.causal else problem.mask
        group = problem.q.shape[1] // problem.k.shape[1]
        self.dropout = problem.dropout
        self.expected = np.empty(problem.out_shape)
        self.spread = np.empty(problem.out_shape) if self.dropout else None  # standard deviation under dropout
        for at in np.ndindex(problem.q.shape[:2]):
            q = problem.q[at].astype(np.float64)
            k, v = (array[at[0], at[1] // group].astype(np.float64) for array in (problem.k, problem.v))
            scores = q @ k.T / np.sqrt(q.shape[1])
            if visible is not None:
                scores[~visible] = -np.inf
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            self.expected[at] = weights @ v
            if self.dropout:
                self.spread[at] = np.sqrt(self.dropout / (1 - self.dropout) * (weights**2 @ v**2))

    def difference(self, out):
        """The largest difference. Under dropout, where each library draws its own, a pair: how far the scale of the output is
        from 1, and how far the variance of its deviations is from the one dropout gives, as a share of that."""
        if not self.dropout:
            return float(np.abs(out - self.expected).max())
        expected, found = self.expected / self.spread, out / self.spread
        scale = (found * expected).sum() / (expected**2).sum()
        return float(scale - 1), float(((found - expected) ** 2).mean() - 1)

    def accepts(self, difference):
        if not self.dropout:
            return difference <= self.LARGEST_DIFFERENCE
        return abs(difference[0]) <= self.LARGEST_SCALE_ERROR and abs(difference[1]) <= self.LARGEST_VARIANCE_ERROR
