#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes core/device/quantised_tables.c: the numbers that the IQ types of GGUF choose
from, which are part of the format, as the package gguf has them.

    pip install gguf
    tools/quantised_grids.py > core/device/quantised_tables.c && clang-format -i $_
"""
from gguf import quants

HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grids of IQ types (quantised_blocks.h), written by tools/quantised_grids.py from
 * the tables of llama.cpp's Python package gguf. They are part of the file format: a
 * file has the numbers of entries only.
 */
#include "core/device/quantised_blocks.h"
"""
GRIDS = {"iq2_xxs": quants.IQ2_XXS, "iq2_xs": quants.IQ2_XS, "iq2_s": quants.IQ2_S,
         "iq3_xxs": quants.IQ3_XXS, "iq3_s": quants.IQ3_S, "iq1": quants.IQ1_S}


def main():
    print(HEAD)
    for name, kind in GRIDS.items():
        raw = bytes.fromhex(kind.grid_hex.decode())
        entries = [f"0x{raw[i] | raw[i + 1] << 8:04x}" for i in range(0, len(raw), 2)]
        assert len(entries) == kind.grid_shape[0]
        print(f"const uint16_t lls_grid_{name}[{len(entries)}] = {{"
              + ", ".join(entries) + "};\n")


main()
