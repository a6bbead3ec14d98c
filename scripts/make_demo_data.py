#!/usr/bin/env python3
"""Makes data/minilm_layer0_qkv.safetensors, the real input of `heed demo`. A developer's script; needs numpy.

    scripts/make_demo_data.py SOURCE [--out FILE]

SOURCE holds layer 0 of sentence-transformers/all-MiniLM-L6-v2 with its input and a float64 reference: tensors
hidden_states, attention.self.{query,key,value}.{weight,bias}, attention_mask, input_ids, attention_probs, context, lse.
The hidden states are projected in float64 and rounded once to float32. The reference is carried over, its context split
by heads. The same SOURCE gives the same bytes. No weight of the model enters the file.
"""

import argparse
import json
import pathlib

import numpy as np

HEADS = 12
DTYPES = {"F64": "<f8", "F32": "<f4", "I32": "<i4", "BOOL": "|b1"}
# Far below what float32 rounding of q, k and v can do to the reference, which was made from unrounded ones.
LARGEST_ROUNDING_EFFECT = 2e-6
NOTICE = (
    "Activations computed with the weights of sentence-transformers/all-MiniLM-L6-v2, which is licensed under the Apache "
    "License, Version 2.0 (http://www.apache.org/licenses/LICENSE-2.0). Changed: the hidden states of two sentences were "
    "projected to queries, keys and values by the weights of layer 0. The weights themselves are not included."
)


def read_safetensors(path):
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = (start + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors, metadata


def write_safetensors(path, tensors, metadata):
    """Larger element types first, then by name, so that every tensor is aligned to its type."""
    names = {np.dtype(code): name for name, code in DTYPES.items()}
    header, blobs, offset = {"__metadata__": dict(sorted(metadata.items()))}, [], 0
    for name in sorted(tensors, key=lambda n: (-tensors[n].dtype.itemsize, n)):
        array = np.ascontiguousarray(tensors[name])
        blobs.append(array.tobytes())
        end = offset + len(blobs[-1])
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def split_heads(x):  # (batch, len, model_dim) -> (batch, heads, len, head_dim)
    batch, length, model_dim = x.shape
    return np.ascontiguousarray(x.reshape(batch, length, HEADS, model_dim // HEADS).transpose(0, 2, 1, 3))


def attention(q, k, v, mask):  # float64; mask (batch, kv_len), true = allowed
    scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(mask[:, None, None, :], scores, -np.inf)
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - largest)
    total = weights.sum(-1, keepdims=True)
    return weights @ v / total, (np.log(total) + largest)[..., 0], weights / total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    default = pathlib.Path(__file__).resolve().parent.parent / "data" / "minilm_layer0_qkv.safetensors"
    parser.add_argument("--out", type=pathlib.Path, default=default)
    arguments = parser.parse_args()
    tensors, metadata = read_safetensors(arguments.source)

    hidden = tensors["hidden_states"].astype(np.float64)
    out = {}
    for name, part in (("q", "query"), ("k", "key"), ("v", "value")):
        weight = tensors[f"attention.self.{part}.weight"].astype(np.float64)
        bias = tensors[f"attention.self.{part}.bias"].astype(np.float64)
        out[name] = split_heads(hidden @ weight.T + bias).astype(np.float32)
    reference = {
        "context": split_heads(tensors["context"]),
        "lse": tensors["lse"],
        "attention_probs": tensors["attention_probs"],
    }

    rounded = [out[name].astype(np.float64) for name in "qkv"]
    for name, got in zip(("context", "lse", "attention_probs"), attention(*rounded, tensors["attention_mask"])):
        effect = np.abs(got - reference[name]).max()
        print(f"{name}: float32 inputs change the reference by at most {effect:.1e}")
        if effect > LARGEST_ROUNDING_EFFECT * max(1, np.abs(reference[name]).max()):
            raise SystemExit(f"{name}: the projected q, k, v do not reproduce the reference")

    out |= reference
    out |= {name: tensors[name] for name in ("attention_mask", "input_ids")}
    kept = {name: metadata[name] for name in ("sentences", "tokens", "source", "source_wheel_sha256", "f32_err")}
    write_safetensors(arguments.out, out, kept | {
        "model": "sentence-transformers/all-MiniLM-L6-v2",
        "layer": "0",
        "license": "Apache-2.0",
        "notice": NOTICE,
        "what": "q, k, v of one self-attention layer on two sentences, with the float64 reference of its result",
    })
    print(f"{arguments.out}: {arguments.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
