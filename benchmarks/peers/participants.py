"""Heed and its peers behind one interface: made for a problem and a number of threads; run() computes, output() is the
result as (batch, q_heads, q_len, value_dim), of a module as (batch, len, model_dim). Whatever can be prepared is prepared
when they are made; each is given the layout it was written for."""

import ctypes

# Before Heed's library: OpenVINO brings a oneTBB of its own, Heed is content with that one too, and there is one pool.
import openvino
import openvino.opset13 as ov
import numpy as np
import onnx
import onnxruntime
import torch

import heed_library
from heed_library import Heed, HeedCache, HeedModule
from module_rows import ModuleProblem
from onnx_models import Attention, GroupQueryAttention, MultiHeadAttention
from rows import empty
from torch_modules import TorchFunctions, TorchFused, TorchModule


class Torch:
    """torch.nn.functional.scaled_dot_product_attention on (batch, heads, len, dim)."""

    name = "PyTorch"

    @staticmethod
    def can(problem):
        return True

    def __init__(self, problem, threads):
        torch.set_num_threads(threads)
        self.arrays = [torch.from_numpy(array) for array in (problem.q, problem.k, problem.v)]
        mask = problem.mask_for_top_left
        self.options = {
            "attn_mask": None if mask is None else torch.from_numpy(mask),
            "is_causal": problem.causal and mask is None,
            "dropout_p": problem.dropout,
            "enable_gqa": problem.q.shape[1] != problem.k.shape[1],
        }

    def run(self):
        with torch.inference_mode():
            self.out = torch.nn.functional.scaled_dot_product_attention(*self.arrays, **self.options)

    def output(self):
        return self.out.numpy()


class OpenVino:
    """The operation ScaledDotProductAttention on (batch, heads, len, dim), float32 inside too."""

    name = "OpenVINO"
    core = openvino.Core()

    @staticmethod
    def can(problem):
        return problem.q.shape[1] == problem.k.shape[1] and not problem.dropout

    def __init__(self, problem, threads):
        mask = problem.mask_for_top_left
        self.arrays = [problem.q, problem.k, problem.v] + ([] if mask is None else [mask])
        inputs = [ov.parameter(array.shape, array.dtype.type) for array in self.arrays]
        node = ov.scaled_dot_product_attention(*inputs, causal=problem.causal and mask is None)
        compiled = self.core.compile_model(
            openvino.Model([node], inputs),
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": "f32",
                "INFERENCE_NUM_THREADS": threads,
                "NUM_STREAMS": 1,
                "ENABLE_CPU_PINNING": False,  # the threads it shares are not to be tied to a core
            },
        )
        self.request = compiled.create_infer_request()
        self.out = empty(problem.out_shape)
        for i, array in enumerate(self.arrays):
            self.request.set_input_tensor(i, openvino.Tensor(array, shared_memory=True))
        self.request.set_output_tensor(0, openvino.Tensor(self.out, shared_memory=True))

    def run(self):
        self.request.infer()

    def output(self):
        return self.out


PEERS = [Torch, OpenVino, Attention, MultiHeadAttention, GroupQueryAttention]
MODULES = [HeedModule, TorchModule, TorchFused, TorchFunctions]
NAMES = [each.name for each in (Heed, *PEERS)]


class Folded:
    """A peer given the heads of a group as queries of one head."""

    def __init__(self, peer, problem, threads):
        self.name = peer.name + ", folded"
        self.shape = problem.out_shape
        self.peer = peer(problem.folded(), threads)
        self.run = self.peer.run

    def output(self):
        return self.peer.output().reshape(self.shape)


def make_participants(problem, fold, threads):
    if isinstance(problem, ModuleProblem):
        return [each(problem, threads) for each in MODULES]
    participants = [Heed(problem, threads)]
    participants += [HeedCache(problem, threads)] if HeedCache.can(problem) else []
    participants += [peer(problem, threads) for peer in PEERS if peer.can(problem)]
    if fold:
        participants += [Folded(peer, problem, threads) for peer in PEERS if peer.can(problem.folded())]
    return participants


def versions():
    modules = (torch, onnxruntime, onnx, openvino, np)
    loaded = ctypes.CDLL("libtbb.so.12")  # the one that is in this process already
    loaded.TBB_runtime_version.restype = ctypes.c_char_p
    return {
        "heed": heed_library.text("build"),
        **{module.__name__: module.__version__.partition("-")[0] for module in modules},  # OpenVINO's goes on for long
        "oneTBB": loaded.TBB_runtime_version().decode(),
    }
