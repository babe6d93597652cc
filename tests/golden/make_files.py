"""Writes tests/golden/files.h: small files as NumPy and safetensors write them, as bytes.

    python3 tests/golden/make_files.py        (needs numpy and safetensors)
"""
import io
import os

import numpy as np
from safetensors.numpy import save


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npz(save_it):
    out = io.BytesIO()
    save_it(out, a=np.arange(6, dtype=np.float32).reshape(2, 3), b=np.array([True, False]), zeros=np.zeros(40000, np.float64))
    return out.getvalue()


grid = np.arange(6).reshape(2, 3)
FILES = {
    "npy_f4": npy(grid.astype("<f4")),
    "npy_i8_fortran": npy(np.asfortranarray(grid.astype("<i8"))),
    "npy_f8_big_endian": npy(grid.astype(">f8")),
    "npy_i2_1d": npy(np.array([-2, 300], "<i2")),
    "npy_bool_0d": npy(np.array(True)),
    "npy_f2_empty": npy(np.zeros((0, 4), "<f2")),
    "npy_u4": npy(np.arange(3, dtype="<u4")),
    "npy_struct": npy(np.zeros(2, dtype=[("x", "<i4"), ("y", "<f4")])),
    "npz_stored": npz(lambda out, zeros, **arrays: np.savez(out, **arrays)),
    "npz_deflated": npz(np.savez_compressed),
    "safetensors": save({"weight": grid.astype("<f4"), "bias": np.array([1, -1], "<i8"), "mask": np.array([True, False, True]),
                         "none": np.zeros((0, 2), "<f2")}, metadata={"format": "np", "über": "\"quoted\"\n"}),
}


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "files.h")
    with open(path, "w", encoding="utf-8") as f:
        f.write("/* Written by make_files.py: files as NumPy and safetensors write them. */\n")
        for name, data in FILES.items():
            f.write(f"static const unsigned char {name}[] = {{ /* {len(data)} bytes */\n")
            for i in range(0, len(data), 24):
                f.write("    " + "".join(f"{b}," for b in data[i:i + 24]) + "\n")
            f.write("};\n")
    print(", ".join(f"{n}: {len(d)}" for n, d in FILES.items()))


if __name__ == "__main__":
    main()
