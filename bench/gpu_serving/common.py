# SPDX-License-Identifier: Apache-2.0
"""Shared by the scripts of bench/gpu_serving: paths of programs, presets and models, the remaining time, the lower
bound of a step's time, and tables. Uses only Python's standard library.

Variables of the environment replace the defaults, which are for a GPU machine with the bundle of bench/gpu-bundle:
LLS_BUILDDIR (the folder of the programs, or the one above their bin/), LLS_SRCDIR (the source tree), DEVICE (cuda),
MODELS (llama-3-8b,opt-13b: folders of bench/, or paths)."""
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(os.environ.get("LLS_SRCDIR") or Path(__file__).resolve().parents[2])
BUILD = Path(os.environ.get("LLS_BUILDDIR") or ".").resolve()
DEVICE = os.environ.get("DEVICE", "cuda")
MODELS = os.environ.get("MODELS", "llama-3-8b,opt-13b").split(",")
STEP_TOKENS = int(os.environ.get("STEP_TOKENS", "2048"))  # most tokens in a step, in all parts
SEQUENCES = int(os.environ.get("SEQUENCES", "256"))
LENGTHS = Path(os.environ.get("LENGTHS") or ROOT / "experiments/papers/lengths/sharegpt.csv")

# Datasheets: bytes/s of memory, operations/s of bf16 without sparsity. What bench/gpu measures goes first.
DATASHEETS = {"h100-80g": (3.35e12, 989e12), "h200": (4.8e12, 989e12)}


def program(name):
    """A program of the bundle, or of a build folder."""
    for folder in (BUILD / "bin", BUILD, BUILD / "bench"):
        if (folder / name).is_file():
            return str(folder / name)
    raise SystemExit(f"there is no {name} in {BUILD}: set LLS_BUILDDIR")


def model_folder(name):
    return Path(name) if "/" in name else ROOT / "bench" / name


def environment():
    e = dict(os.environ)
    if "LLS_LIBRARY_PATH" in e:  # the bundle's libraries are too old for Python's own modules
        e["LD_LIBRARY_PATH"] = e["LLS_LIBRARY_PATH"]
    e.setdefault("LLS_PLUGIN_PATH", str(BUILD / ".libs"))
    e.setdefault("LLS_PROFILE_PATH", str(ROOT / "etc/profiles"))
    return e


class Deadline:
    """The remaining time of a part."""

    def __init__(self, seconds):
        self.ends = time.monotonic() + seconds

    def left(self):
        return self.ends - time.monotonic()


def run(log, command, limit, env=None):
    """Runs a command with its output in a file. Returns the error, or None."""
    with open(log, "w", encoding="utf-8") as out:
        try:
            rc = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False,
                                env=env or environment(), timeout=max(1, limit)).returncode
        except subprocess.TimeoutExpired:
            return f"cut off after {limit:.0f} s"
    if rc == 0:
        return None
    return f"status {rc}: " + " / ".join(Path(log).read_text(encoding="utf-8", errors="replace").splitlines()[-3:])


def settings(*pairs):
    return [word for pair in pairs for word in ("--set", pair)]


def limits(out):
    """Returns (bytes/s, operations/s, their source) of this GPU."""
    if DEVICE != "cuda":
        return 20e9, 1e12, "made up: no GPU"
    log = out / "limits.log"
    if log.exists() or run(log, [program("gpu"), "limits"], 40) is None:
        found = re.search(r"copy ([\d.]+) GB/s, bf16 matrices ([\d.]+) TFLOP/s", log.read_text())
        if found:
            return float(found[1]) * 1e9, float(found[2]) * 1e12, "bench/gpu"
    return *DATASHEETS[shipped()], "the datasheet"


def shipped():
    """Returns the profile of this card in etc/profiles."""
    name = "" if DEVICE != "cuda" else subprocess.run(
        ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=False).stdout
    return "h200" if "H200" in name else "h100-80g"


class Shape:
    """The sizes of a model which the lower bound of a step needs."""

    def __init__(self, folder):
        c = json.loads((Path(folder) / "config.json").read_text())
        self.name, self.hidden, self.layers = Path(folder).name, c["hidden_size"], c["num_hidden_layers"]
        self.vocab, heads = c["vocab_size"], c["num_attention_heads"]
        kv = c.get("num_key_value_heads", heads) * (self.hidden // heads)
        gated = "intermediate_size" in c
        ffn = c["intermediate_size"] if gated else c["ffn_dim"]
        self.products = [self.hidden * (self.hidden + 2 * kv), self.hidden**2, self.hidden * ffn * (2 if gated else 1),
                         self.hidden * ffn]
        self.token_bytes = 2 * 2 * kv * self.layers

    def floor(self, rows, drawn, cached, copy, matrix):
        """The lower bound of a step's seconds, by its rows, its drawn tokens and the cached tokens: as in
        bench/gpu_models.c, each product by its bytes or operations, K and V by their bytes."""
        def product(numbers, n):
            return max(2 * numbers / copy, 2 * numbers * n / matrix)
        layers = self.layers * sum(product(n, rows) for n in self.products)
        return layers + product(self.hidden * self.vocab, drawn) + cached * self.token_bytes / copy


def number(x):
    if isinstance(x, float):
        return f"{x:.0f}" if abs(x) >= 1000 else f"{x:.1f}" if abs(x) >= 10 else f"{x:.2f}"
    return "-" if x is None else str(x)


def table(columns, rows):
    """Prints a Markdown table with aligned columns."""
    cells = [columns] + [[number(x) for x in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    cells.insert(1, ["-" * w for w in widths])
    for row in cells:
        print("| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |")
    sys.stdout.flush()


def say(text):
    print(text, flush=True)
