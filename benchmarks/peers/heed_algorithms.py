"""Softmax, k-means and Adam of Heed through the C functions of heed_algorithms_c.cpp."""

import ctypes

import numpy as np

from heed_library import call, release
from rows import aligned, empty


class HeedSoftmax:
    name = "Heed"

    class Call(ctypes.Structure):
        _fields_ = [
            *((name, ctypes.c_void_p) for name in ("x", "out")),
            *((name, ctypes.c_int64) for name in ("rows", "columns", "axis")),
            *((name, ctypes.c_int32) for name in ("is_log", "threads")),
        ]

    def __init__(self, problem, threads):
        self.problem = problem  # keeps the arrays
        self.out = empty(problem.x.shape)
        self.call = self.Call(
            problem.x.ctypes.data, self.out.ctypes.data, *problem.x.shape, problem.axis, problem.is_log, threads
        )

    def run(self):
        call("softmax", ctypes.byref(self.call))

    def output(self):
        return self.out


class HeedKMeans:
    name = "Heed"

    class Call(ctypes.Structure):
        _fields_ = [
            *((name, ctypes.c_void_p) for name in ("x", "centers", "out")),
            *((name, ctypes.c_int64) for name in ("n", "d", "k", "iterations")),
            ("threads", ctypes.c_int32),
        ]

    def __init__(self, problem, threads):
        self.problem = problem  # keeps the arrays
        self.out = empty(problem.centers.shape)
        data = [each.ctypes.data for each in (problem.x, problem.centers, self.out)]
        self.call = self.Call(*data, *problem.x.shape, len(problem.centers), problem.iterations, threads)

    def run(self):
        call("kmeans", ctypes.byref(self.call))

    def output(self):
        return self.out


class HeedAdam:
    name = "Heed"

    class Call(ctypes.Structure):
        _fields_ = [
            *((name, ctypes.c_void_p) for name in ("params", "grads", "sizes")),
            ("count", ctypes.c_int64),
            *((name, ctypes.c_int32) for name in ("amsgrad", "threads")),
        ]

    def __init__(self, problem, threads):
        self.params = [aligned(each) for each in problem.params]
        self.grads = problem.grads
        count = len(self.params)
        params = (ctypes.c_void_p * count)(*(each.ctypes.data for each in self.params))
        grads = (ctypes.c_void_p * count)(*(each.ctypes.data for each in self.grads))
        sizes = (ctypes.c_int64 * count)(*(each.size for each in self.params))
        addresses = [ctypes.addressof(each) for each in (params, grads, sizes)]
        self.optimiser = ctypes.c_void_p()
        call("adam_create", ctypes.byref(self.Call(*addresses, count, problem.amsgrad, threads)), ctypes.byref(self.optimiser))

    def __del__(self):
        release("adam_destroy", self.optimiser)

    def run(self):
        call("adam_step", self.optimiser)

    def output(self):
        return np.concatenate(self.params)
