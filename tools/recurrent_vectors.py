#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes t/data/recurrent/LAYER: random inputs of a recurrent layer in f32, then what
transformers' own functions in plain PyTorch make of them, in the order in which
t/kernel/test_recurrent.c reads them.

    pip install torch transformers
    tools/recurrent_vectors.py [FOLDER]

The sizes here are those of the test.
"""
import pathlib
import sys

import torch
from torch.nn import functional
from transformers.models.falcon_h1.modeling_falcon_h1 import FalconH1RMSNormGated
from transformers.models.mamba2.modeling_mamba2 import mamba2_chunk_scan
from transformers.models.qwen3_next.modeling_qwen3_next import (
    Qwen3NextRMSNormGated, torch_chunk_gated_delta_rule)

ROWS = 70  # over the border of the reference's chunks of 64
KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM = 2, 4, 16, 8
HEADS, GROUPS, HEAD_DIM, STATE_DIM = 4, 2, 8, 16
CHANNELS, WIDTHS = 12, (2, 3, 4, 8)
NORM_GROUPS, NORM_COLUMNS = 3, 10


def normal(*shape):
    return torch.randn(*shape)


def delta():
    q, k = normal(1, ROWS, KEY_HEADS, KEY_DIM), normal(1, ROWS, KEY_HEADS, KEY_DIM)
    v = normal(1, ROWS, VALUE_HEADS, VALUE_DIM)
    a, b = normal(ROWS, VALUE_HEADS), normal(ROWS, VALUE_HEADS)
    a_log, bias = normal(VALUE_HEADS), normal(VALUE_HEADS)
    state = normal(1, VALUE_HEADS, KEY_DIM, VALUE_DIM)
    g = -a_log.exp() * functional.softplus(a + bias)
    out, after = torch_chunk_gated_delta_rule(
        q, k, v, g[None], b.sigmoid()[None], initial_state=state,
        output_final_state=True, use_qk_l2norm_in_kernel=True)
    return q, k, v, a, b, -a_log.exp(), bias, state, out, after


def space():
    x = normal(1, ROWS, HEADS, HEAD_DIM)
    b, c = normal(1, ROWS, GROUPS, STATE_DIM), normal(1, ROWS, GROUPS, STATE_DIM)
    dt, a_log, bias, d = (normal(1, ROWS, HEADS), normal(HEADS), normal(HEADS),
                          normal(HEADS))
    state = normal(1, HEADS, HEAD_DIM, STATE_DIM)
    out, after = mamba2_chunk_scan(
        x, dt, -a_log.exp(), b, c, 32, D=d, dt_bias=bias, initial_states=state,
        dt_softplus=True, dt_limit=(0.1, 2.0), return_final_states=True)
    return (x, b, c, dt, -a_log.exp(), bias, d, state.transpose(2, 3), out,
            after.transpose(2, 3))


def conv():
    x, values = normal(ROWS, CHANNELS), []
    for width in WIDTHS:
        weight, bias = normal(width, CHANNELS), normal(CHANNELS)
        out = functional.conv1d(x.T[None], weight.T[:, None], bias, padding=width - 1,
                                groups=CHANNELS)[0].T[:ROWS]
        values += [weight, bias, out, functional.silu(out)]
    return x, *values


def norm():
    columns = NORM_GROUPS * NORM_COLUMNS
    x, gate, whole, one = (normal(ROWS, columns), normal(ROWS, columns), normal(columns),
                           normal(NORM_COLUMNS))
    first = FalconH1RMSNormGated(columns, 1e-5, NORM_GROUPS, norm_before_gate=False)
    last = Qwen3NextRMSNormGated(NORM_COLUMNS, 1e-5)
    first.weight.data, last.weight.data = whole, one
    heads = (-1, NORM_COLUMNS)
    return (x, gate, whole, one, first(x[None], gate[None]),
            last(x.reshape(heads), gate.reshape(heads)))


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "t/data/recurrent")
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    for layer in delta, space, conv, norm:
        with torch.no_grad():
            values = layer()
        (folder / layer.__name__).write_bytes(b"".join(
            value.contiguous().numpy().astype("<f4").tobytes() for value in values))


main()
