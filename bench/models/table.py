# SPDX-License-Identifier: Apache-2.0
"""Which families of models are computed exactly: one command makes the tiny models of families.py by transformers' own
classes in a temporary folder, runs t/unit/test_families of a build on each, and prints a table.

    table.py BUILD [NAME...]

A family counts if every prompt has transformers' logits within 1e-4 and its greedy ids, however steps are cut, from the
folder, from the GGUF file where there is one, and on two ranks. Column "off": the largest difference of a logit of the
folder in all steps. Column "no.": the place in the list of 60 families that people run most; families of the older tests
(t/unit/test_engine, test_encoder, t/api/embeddings.t) are listed from OLDER. It needs torch, transformers and gguf (a Python package)."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import make
from families import FAMILIES

OLDER = {
    4: "Qwen3", 6: "Llama 3", 7: "gpt-oss", 8: "Qwen2.5", 9: "Qwen3-MoE", 16: "Gemma 3 (text)", 22: "Phi-4, Phi-4-mini",
    28: "Mistral 7B, Nemo", 29: "SmolLM2, 3", 32: "Gemma 2", 33: "Mixtral", 39: "Falcon 3", 43: "Yi, OLMo 2", 46: "OPT",
    47: "Pythia", 52: "MiniLM", 53: "bge", 54: "mpnet", 55: "Qwen3-Embedding", 56: "EmbeddingGemma", 57: "nomic",
    58: "gte, ModernBERT", 59: "cross-encoders"
}


def check(program, root, name):
    """Runs the program on one family; returns whether folder, ranks and GGUF file are exact, and the folder's error."""
    run = subprocess.run([program, name], env=os.environ | {"LLS_SRCDIR": str(root)}, capture_output=True, text=True)
    text = run.stdout + run.stderr
    off = re.search(r"worst error of a logit ([0-9.e+-]+)", text)
    kinds = {}
    for kind, label in ((name, "folder"), ("ranks", "ranks"), ("GGUF", "GGUF")):
        if re.search(rf"RUN      \] {re.escape(kind)}$", text, re.M):
            kinds[label] = re.search(rf"OK \] {re.escape(kind)}$", text, re.M) is not None
    return kinds, off[1] if off else "-"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = Path(sys.argv[1]).resolve() / "t/unit/test_families"
    if not program.exists():
        sys.exit(f"{program} is missing: make it by `make t/unit/test_families` in the build folder")
    exact, yes = {number: title for number, title in OLDER.items()}, {True: "yes", False: "NO", None: "-"}
    make.torch.set_num_threads(1)
    make.transformers.logging.set_verbosity_error()
    make.transformers.logging.disable_progress_bar()
    print(f"{'family':<18} {'no.':>4} {'folder':>7} {'GGUF':>5} {'ranks':>6} {'off':>9}")
    with tempfile.TemporaryDirectory() as root:
        models = Path(root) / "t/data/models"
        models.mkdir(parents=True)
        for f in FAMILIES:
            if sys.argv[2:] and f["name"] not in sys.argv[2:]:
                continue
            make.make(f, models, quiet=True)
            kinds, off = check(program, root, f["name"])
            print(f"{f['name']:<18} {f['number'] or '-':>4} {yes[kinds.get('folder')]:>7} {yes[kinds.get('GGUF')]:>5} "
                  f"{yes[kinds.get('ranks')]:>6} {off:>9}", flush=True)
            if kinds and all(kinds.values()) and f["number"]:
                exact.setdefault(f["number"], f["name"])
    print(f"places of the list of 60 with a family that is exact: {len(exact)}: {sorted(exact)}")


if __name__ == "__main__":
    main()
