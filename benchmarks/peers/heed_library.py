"""Heed through the C functions of heed_c.cpp."""

import ctypes

from rows import empty

# What returns text: an error, or what it is asked for.
FUNCTIONS = [
    *("attention", "cache_create", "cache_attend", "module_create", "module_run"),
    *("softmax", "kmeans", "adam_create", "adam_step"),
    *("measure_peak", "processor", "build"),
]

_library = None


def load(path):
    global _library
    _library = ctypes.CDLL(path)
    for function in FUNCTIONS:
        getattr(_library, "heed_" + function).restype = ctypes.c_char_p


def text(function):
    return getattr(_library, "heed_" + function)().decode()


def call(function, *arguments):
    error = getattr(_library, "heed_" + function)(*arguments)
    if error:
        raise RuntimeError(error.decode())


def release(function, handle):
    getattr(_library, "heed_" + function)(handle)


def peak(threads, seconds):
    """Operations in registers and bytes read from memory, per second."""
    flops, read = ctypes.c_double(), ctypes.c_double()
    call("measure_peak", ctypes.c_int32(threads), ctypes.c_double(seconds), ctypes.byref(flops), ctypes.byref(read))
    return flops.value, read.value


class Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.c_int64 * 4), ("strides", ctypes.c_int64 * 4)]

    @classmethod
    def of(cls, array):
        strides = [step // array.itemsize for step in array.strides]
        return cls(array.ctypes.data, (ctypes.c_int64 * 4)(*array.shape), (ctypes.c_int64 * 4)(*strides))


class Options(ctypes.Structure):
    _fields_ = [
        ("mask", ctypes.c_void_p),
        ("dropout", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        ("causal", ctypes.c_int32),
        ("threads", ctypes.c_int32),
    ]


class Heed:
    """(batch, heads, len, dim), the very arrays that PyTorch, OpenVINO and ONNX's Attention read."""

    name = "Heed"

    def __init__(self, problem, threads):
        self.problem = problem  # keeps the arrays
        self.out = empty(problem.out_shape)
        self.q, self.k, self.v, self.to = (Array.of(each) for each in (problem.q, problem.k, problem.v, self.out))
        mask = None if problem.mask is None else problem.mask.ctypes.data
        self.options = Options(mask, problem.dropout, 1, problem.causal, threads)
        self.arguments = [ctypes.byref(each) for each in (self.q, self.k, self.v, self.to, self.options)]

    def run(self):
        call("attention", *self.arguments)

    def output(self):
        return self.out


class HeedCache(Heed):
    """The same over a KVCache that all keys and values were appended to beforehand."""

    name = "Heed, cache"

    @staticmethod
    def can(problem):
        """The newest queries on a cache."""
        return not problem.square and problem.mask is None

    def __init__(self, problem, threads):
        super().__init__(problem, threads)
        self.cache = ctypes.c_void_p()
        call("cache_create", ctypes.byref(self.k), ctypes.byref(self.v), ctypes.byref(self.cache))
        self.arguments = [self.cache, *(ctypes.byref(each) for each in (self.q, self.to, self.options))]

    def __del__(self):
        release("cache_destroy", self.cache)

    def run(self):
        call("cache_attend", *self.arguments)


class HeedModule:
    """heed::MultiHeadAttention, which has a copy of the weights."""

    name = "Heed"

    class Weights(ctypes.Structure):
        _fields_ = [("model_dim", ctypes.c_int64), ("heads", ctypes.c_int64), ("qkvo", ctypes.c_void_p * 4)]

    class Tokens(ctypes.Structure):
        _fields_ = [("x", ctypes.c_void_p), ("y", ctypes.c_void_p), ("batch", ctypes.c_int64), ("length", ctypes.c_int64)]

    def __init__(self, problem, threads):
        self.problem = problem  # keeps the arrays
        self.out = empty(problem.x.shape)
        batch, length, model_dim = problem.x.shape
        data = [each.ctypes.data for each in (*problem.in_weights, problem.w_out)]
        weights = self.Weights(model_dim, problem.heads, (ctypes.c_void_p * 4)(*data))
        self.module = ctypes.c_void_p()
        call("module_create", ctypes.byref(weights), ctypes.byref(self.module))
        self.tokens = self.Tokens(problem.x.ctypes.data, self.out.ctypes.data, batch, length)
        self.arguments = [self.module, ctypes.byref(self.tokens), ctypes.c_int32(threads)]

    def __del__(self):
        release("module_destroy", self.module)

    def run(self):
        call("module_run", *self.arguments)

    def output(self):
        return self.out
