#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes t/data/quantised/TYPE: two rows of 256 numbers in blocks of that type, then the
same numbers as f32, as the reference makes them of the blocks.

    pip install gguf
    tools/quantised_vectors.py [FOLDER]

Codes and small scales are random bytes; numbers in f16 are random in a model's range.
"""
import pathlib
import sys

import numpy
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Type

# Where a block has its f16 numbers.
HALVES = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208], Type.MXFP4: [],
}
ROWS, COLUMNS = 2, 256


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "t/data/quantised")
    folder.mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(1)
    for kind, halves in HALVES.items():
        numbers, size = GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (ROWS * COLUMNS // numbers, size), numpy.uint8)
        for at in halves:
            half = random.normal(0, 0.01, len(blocks)).astype(numpy.float16)
            blocks[:, at:at + 2] = half.view(numpy.uint8).reshape(-1, 2)
        rows = blocks.reshape(ROWS, -1)
        (folder / kind.name).write_bytes(
            rows.tobytes() + quants.dequantize(rows, kind).astype("<f4").tobytes())


main()
