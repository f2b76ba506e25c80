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
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.IQ4_NL: [0], Type.IQ4_XS: [0],
    Type.IQ3_XXS: [0], Type.IQ3_S: [0], Type.IQ2_XXS: [0], Type.IQ2_XS: [0],
    Type.IQ2_S: [0], Type.IQ1_S: [0], Type.IQ1_M: [], Type.TQ1_0: [52], Type.TQ2_0: [64],
    Type.NVFP4: [],
}
ROWS, COLUMNS = 2, 256


def spread(blocks, random):
    """Puts a number in f16 into the upper four bits of an IQ1_M block's four words."""
    half = random.normal(0, 0.01, len(blocks)).astype(numpy.float16).view(numpy.uint16)
    for i in range(4):
        blocks[:, 49 + 2 * i] = blocks[:, 49 + 2 * i] & 15 | (half >> 4 * i & 15) << 4


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
        if kind == Type.IQ1_M:
            spread(blocks, random)
        if kind == Type.NVFP4:  # scales have no sign
            blocks[:, :4] &= 127
        rows = blocks.reshape(ROWS, -1)
        (folder / kind.name).write_bytes(
            rows.tobytes() + quants.dequantize(rows, kind).astype("<f4").tobytes())


main()
