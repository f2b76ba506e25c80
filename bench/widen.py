#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/widen.py FROM TO [WIDTH [HEADS [FFN]]]: a Llama folder made wider, with the texts that it had.

The rows behind the old width stay zero in every layer (the products that write them are zero, and the norms are scaled for their
zeros), so that the model says what it said before and computes as a model of its new size. Weights that only meet those zeros
are random. For times of real texts at sizes of which no checkpoint is at hand (bench/speculation): SmolLM2-135M at the default
width 2048, 30 heads and 4096 has 1.1e9 parameters. HEADS is a multiple of the old ratio of heads to key heads.
"""
import json
import os
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file

source, target = sys.argv[1], sys.argv[2]
width, heads, ffn = (int(x) for x in (sys.argv[3:] + ["2048", "30", "4096"][len(sys.argv) - 3 :]))
os.makedirs(target, exist_ok=True)
for name in os.listdir(source):
    if not name.endswith(".safetensors"):
        shutil.copy(os.path.join(source, name), target)
with open(os.path.join(source, "config.json")) as f:
    config = json.load(f)
old, size = config["hidden_size"], config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
group = config["num_attention_heads"] // config["num_key_value_heads"]
assert heads % group == 0 and width >= old and ffn >= config["intermediate_size"]
tensors = load_file(os.path.join(source, "model.safetensors"))
shapes = {  # (rows, columns), and whether the new rows are zero
    "embed_tokens": (config["vocab_size"], width, False),
    "lm_head": (config["vocab_size"], width, False),
    "q_proj": (heads * size, width, False),
    "k_proj": (heads // group * size, width, False),
    "v_proj": (heads // group * size, width, False),
    "o_proj": (width, heads * size, True),
    "gate_proj": (ffn, width, False),
    "up_proj": (ffn, width, False),
    "down_proj": (width, ffn, True),
}
torch.manual_seed(1)
out = {}
for name, t in tensors.items():
    part = name.split(".")[-2]
    if t.dim() == 1:  # a norm, whose mean is over more rows
        wide = torch.zeros(width, dtype=t.dtype)
        wide[: len(t)] = t.float() * (old / width) ** 0.5
    else:
        rows, columns, is_zero = shapes[part]
        wide = (torch.randn(rows, columns) * 0.02).to(t.dtype)
        if is_zero:
            wide.zero_()
        if part == "embed_tokens":
            wide[:, t.shape[1] :] = 0
        wide[: t.shape[0], : t.shape[1]] = t
        if is_zero:  # what the new heads and channels make is dropped
            wide[: t.shape[0], t.shape[1] :] = 0
    out[name] = wide.contiguous()
layers = config["num_hidden_layers"]
config.update(hidden_size=width, head_dim=size, num_attention_heads=heads, num_key_value_heads=heads // group)
config.update(intermediate_size=ffn, rms_norm_eps=config["rms_norm_eps"] * old / width)
with open(os.path.join(target, "config.json"), "w") as f:
    json.dump(config, f, indent=2)
save_file(out, os.path.join(target, "model.safetensors"))
print(f"{sum(t.numel() for t in out.values()):.3g} parameters, {layers} layers")
