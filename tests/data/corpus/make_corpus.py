"""Writes the files of this directory with the formats' own libraries: pip install numpy safetensors."""

import pathlib

import numpy as np
import safetensors.numpy
from safetensors import TensorSpec, serialize_file

HERE = pathlib.Path(__file__).parent
CODES = ["b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]


def numbers(code):
    """Six values that reach the ends of the type."""
    if code == "b1":
        return np.array([True, False, True, True, False, False])
    if code[0] == "f":
        info = np.finfo(code)
        return np.array([-1.5, 0.0, info.max, info.tiny, info.smallest_subnormal, -np.inf], dtype=code)
    info = np.iinfo(code)
    return np.array([info.min, info.max, 1, 2, 3, 100], dtype=code)


def make_npy(out):
    for code in CODES:
        np.save(out / f"{code}.npy", numbers(code).reshape(2, 3))
    np.save(out / "f4_big_endian.npy", numbers("f4").astype(">f4"))
    np.save(out / "i8_big_endian_fortran.npy", np.asfortranarray(np.arange(24, dtype=">i8").reshape(2, 3, 4)))
    np.save(out / "f8_fortran.npy", np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)))
    np.save(out / "u1_fortran.npy", np.asfortranarray(np.arange(24, dtype="u1").reshape(4, 3, 2)))
    np.save(out / "f8_rank_zero.npy", np.array(5.0))
    np.save(out / "f4_empty.npy", np.zeros((0, 5), "f4"))
    np.save(out / "f4_rank_five.npy", np.arange(2.0, dtype="f4").reshape(1, 1, 2, 1, 1))
    for major in (2, 3):
        with open(out / f"f4_version_{major}.npy", "wb") as file:
            np.lib.format.write_array(file, numbers("f4"), version=(major, 0))


def make_safetensors(out):
    everything = {code: numbers(code).reshape(2, 3) for code in CODES}
    everything |= {"scalar": np.array(5.0), "empty": np.zeros((0, 5), "f4")}
    safetensors.numpy.save_file(everything, out / "all.safetensors", metadata={"note": "é\n"})
    bf16 = (np.array([-1.5, 0.0, 3.0, np.inf], "f4").view("u4") >> 16).astype("<u2")
    spec = TensorSpec(dtype="bfloat16", shape=[2, 2], data_ptr=bf16.ctypes.data, data_len=bf16.nbytes)
    serialize_file({"w": spec}, out / "bf16.safetensors")
    safetensors.numpy.save_file({}, out / "none.safetensors")


if __name__ == "__main__":
    for name, make in (("npy", make_npy), ("safetensors", make_safetensors)):
        (HERE / name).mkdir(exist_ok=True)
        make(HERE / name)
