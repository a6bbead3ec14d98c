"""The operators of ONNX Runtime that compute attention."""

import numpy as np
import onnx
import onnxruntime

from rows import aligned, empty

LOWEST = np.finfo(np.float32).min  # what hides a key in a mask that is added


class OnnxRuntime:
    """A model of one node, its inputs and outputs bound in place."""

    def prepare(self, op, domain, threads, inputs, outputs, **attributes):
        """inputs: {name: array, or None where the node has none}, in the order of the node's; outputs likewise."""
        types = {np.float32: onnx.TensorProto.FLOAT, np.bool_: onnx.TensorProto.BOOL, np.int32: onnx.TensorProto.INT32}

        def given(arrays):
            return {name: array for name, array in arrays.items() if array is not None}

        def infos(arrays):
            return [onnx.helper.make_tensor_value_info(n, types[a.dtype.type], a.shape) for n, a in given(arrays).items()]

        def names(arrays):
            return [name if array is not None else "" for name, array in arrays.items()]

        node = onnx.helper.make_node(op, names(inputs), names(outputs), domain=domain, **attributes)
        graph = onnx.helper.make_graph([node], op, infos(inputs), infos(outputs))
        opsets = [onnx.helper.make_opsetid("", 23), onnx.helper.make_opsetid("com.microsoft", 1)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=11)  # the format that opset 23 came with

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        self.arrays = (inputs, outputs)  # kept while they are bound
        self.binding = self.session.io_binding()
        for bind, arrays in ((self.binding.bind_input, inputs), (self.binding.bind_output, outputs)):
            for name, array in given(arrays).items():
                bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)

    def run(self):
        self.session.run_with_iobinding(self.binding)


def tokens_first(array):
    """(batch, heads, len, dim) as (batch, len, heads * dim), copied."""
    batch, _, length, _ = array.shape
    return aligned(array.transpose(0, 2, 1, 3)).reshape(batch, length, -1)


def heads_first(array, shape):
    """(batch, len, heads * dim) seen as the shape (batch, heads, len, dim)."""
    batch, heads, length, dim = shape
    return array.reshape(batch, length, heads, dim).transpose(0, 2, 1, 3)


class MultiHeadAttention(OnnxRuntime):
    """com.microsoft.MultiHeadAttention on (batch, len, heads * dim); a cache stays (batch, heads, len, dim). A mask is added,
    as float32 made beforehand."""

    name = "ONNX Runtime MHA"

    @staticmethod
    def can(problem):
        return problem.q.shape[1] == problem.k.shape[1] and not problem.dropout

    def __init__(self, problem, threads):
        self.shape = problem.out_shape
        batch, heads, q_len, value_dim = self.shape
        self.out = empty((batch, q_len, heads * value_dim))
        mask = problem.mask_for_top_left
        inputs = {
            "query": tokens_first(problem.q),
            "key": tokens_first(problem.k) if problem.square else problem.k,
            "value": tokens_first(problem.v) if problem.square else problem.v,
            "bias": None,
            "key_padding_mask": None,
            "attention_bias": None if mask is None else aligned(np.where(mask, np.float32(0), LOWEST)[None, None]),
        }
        self.prepare(
            "MultiHeadAttention",
            "com.microsoft",
            threads,
            inputs,
            {"output": self.out},
            num_heads=heads,
            unidirectional=int(problem.causal and mask is None),
        )

    def output(self):
        return heads_first(self.out, self.shape)


class GroupQueryAttention(OnnxRuntime):
    """com.microsoft.GroupQueryAttention: new tokens as (batch, len, heads * dim), the cache as (batch, heads, len, dim), which
    it appends to in place: here the newest keys and values again, so that the arrays stay as they are. Always causal."""

    name = "ONNX Runtime GQA"

    @staticmethod
    def can(problem):
        same_dim = problem.q.shape[3] == problem.v.shape[3]
        return (problem.causal or problem.q.shape[2] == 1) and same_dim and not problem.dropout

    def __init__(self, problem, threads):
        self.shape = problem.out_shape
        batch, heads, q_len, _ = self.shape
        kv_heads, kv_len = problem.k.shape[1:3]
        self.out = empty((batch, q_len, heads * self.shape[3]))
        cached = kv_len > q_len
        inputs = {
            "query": tokens_first(problem.q),
            "key": tokens_first(problem.k[:, :, -q_len:]),
            "value": tokens_first(problem.v[:, :, -q_len:]),
            "past_key": problem.k if cached else None,
            "past_value": problem.v if cached else None,
            "seqlens_k": np.full(batch, kv_len - 1, np.int32),
            "total_sequence_length": np.array(kv_len, np.int32),
        }
        outputs = {
            "output": self.out,
            "present_key": problem.k if cached else empty(problem.k.shape),
            "present_value": problem.v if cached else empty(problem.v.shape),
        }
        self.prepare(
            "GroupQueryAttention",
            "com.microsoft",
            threads,
            inputs,
            outputs,
            num_heads=heads,
            kv_num_heads=kv_heads,
        )

    def output(self):
        return heads_first(self.out, self.shape)


class Attention(OnnxRuntime):
    """ONNX's own Attention, opset 23, on (batch, heads, len, dim)."""

    name = "ONNX Runtime Attention"

    @staticmethod
    def can(problem):
        return not problem.dropout

    def __init__(self, problem, threads):
        self.out = empty(problem.out_shape)
        mask = problem.mask_for_top_left
        self.prepare(
            "Attention",
            "",
            threads,
            {"Q": problem.q, "K": problem.k, "V": problem.v, "attn_mask": mask},
            {"Y": self.out},
            is_causal=int(problem.causal and mask is None),
        )

    def output(self):
        return self.out
