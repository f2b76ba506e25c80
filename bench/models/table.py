# SPDX-License-Identifier: Apache-2.0
"""Which families of models are computed exactly, and what they keep in the cache: one command makes the tiny models of
families.py by transformers' own classes in a temporary folder, runs t/unit/test_families of a build on each, and prints a
table; then memory.py's table of models of published sizes.

    table.py BUILD [NAME...]         NAME: a family, or a model of memory.py
    table.py --readme [--update]     README's table of models, without running any; 1 if README has another one

A family counts if every prompt has transformers' logits within 1e-4 and its greedy ids, however steps are cut, from the
folder, from the GGUF file where there is one, and on two ranks. Column "off": the largest difference of a logit of the
folder in all steps; "ours" and "torch": how far the server's logits, and torch's in f32, are from the class in f64
(wide.py). Column "no.": the place in the list of 60 families that people run most; families of the older tests
(t/unit/test_engine, test_encoder, t/api/embeddings.t) are listed from OLDER. The last columns are of the family's model in
memory.py: KiB of cache that each token adds, and MiB that a sequence has however long it is, each with the designed figure
in parentheses. Of the six places 10 to 15 (DeepSeek, GLM, MiniMax, Kimi) 13 is for DeepSeek V4, which is
refused. The table fails if README promises what it does not find. It needs torch, transformers and gguf (a Python
package), --readme only Python."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import memory
import readme
from families import FAMILIES

OLDER = {
    4: "Qwen3", 6: "Llama 3", 7: "gpt-oss", 8: "Qwen2.5", 9: "Qwen3-MoE", 16: "Gemma 3 (text)", 22: "Phi-4, Phi-4-mini",
    28: "Mistral 7B, Nemo", 29: "SmolLM2, 3", 32: "Gemma 2", 33: "Mixtral", 39: "Falcon 3", 43: "Yi, OLMo 2", 46: "OPT",
    47: "Pythia", 52: "MiniLM", 53: "bge", 54: "mpnet", 55: "Qwen3-Embedding", 56: "EmbeddingGemma", 57: "nomic",
    58: "gte, ModernBERT", 59: "cross-encoders", 60: "Qwen3-Reranker"
}

# A family's model in memory.py.
SIZES = {
    "qwen3.5-moe": "Qwen3.6-35B-A3B", "qwen3.5": "Qwen3.6-27B", "qwen3-next": "Qwen3-Next-80B", "gemma-4-26b": "Gemma 4 26B-A4B",
    "gemma-4-31b": "Gemma 4 31B", "gemma-3n": "Gemma 3n E4B", "deepseek-v3": "DeepSeek-V3", "glm-4.7-flash": "GLM-4.7-Flash", "lfm2": "LFM2-1.2B",
    "gpt-oss-16": "gpt-oss-20b", "granite-4-h": "Granite 4 H small", "nemotron-3": "Nemotron 3 Nano"
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


def kept(build, name):
    """Two cells: KiB a token, and MiB a sequence, of the family's model."""
    model = SIZES.get(name)
    ours, _ = memory.measure(build, model) if model else (None, None)
    if ours is None:
        return f"{'-':>15} {'-':>16}"
    return "".join(f"{f'{n:.1f} ({d:g})':>{width}}" for n, d, width in zip(ours, memory.MODELS[model][1:], (15, 17)))


def promised(name, kinds):
    """Sentences about what README promises of a family and the run did not find."""
    wrong = [f"{name}: {kind} is not exact" for kind, ok in kinds.items() if not ok]
    return wrong if kinds else [f"{name}: t/unit/test_families did not run it"]


def print_families(build, program, wanted):
    """Prints the table; returns the places with an exact family, and what is wrong."""
    import make
    make.torch.set_num_threads(1)
    make.transformers.logging.set_verbosity_error()
    make.transformers.logging.disable_progress_bar()
    exact, wrong, yes = dict(OLDER), [], {True: "yes", False: "NO", None: "-"}
    print(f"{'family':<18} {'no.':>4} {'folder':>7} {'GGUF':>5} {'ranks':>6} {'off':>9} {'ours':>8} {'torch':>8} {'a token, KiB':>14} {'a sequence, MiB':>16}")
    with tempfile.TemporaryDirectory() as root:
        models = Path(root) / "t/data/models"
        models.mkdir(parents=True)
        for f in wanted:
            narrow, wide = make.make(f, models, quiet=True)
            kinds, off = check(program, root, f["name"])
            wide.numpy().astype("<f4").tofile(models / f["name"] / "reference_logits.bin")
            ours = check(program, root, f["name"])[1]
            torch_off = (narrow.double() - wide).abs().max().item()
            print(f"{f['name']:<18} {f['number'] or '-':>4} {yes[kinds.get('folder')]:>7} {yes[kinds.get('GGUF')]:>5} "
                  f"{yes[kinds.get('ranks')]:>6} {off:>9} {ours:>8} {torch_off:>8.1e}{kept(build, f['name'])}", flush=True)
            wrong += promised(f["name"], kinds)
            if kinds and all(kinds.values()) and f["number"]:
                exact.setdefault(f["number"], f["name"])
    return exact, wrong


def main():
    by_name = {f["name"]: f for f in FAMILIES}
    if "--readme" in sys.argv:
        wrong = readme.check(by_name, update="--update" in sys.argv)
        print("".join(readme.lines(by_name)) if not wrong else "\n".join(wrong), end="" if not wrong else "\n")
        return 1 if wrong else 0
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build, names = Path(sys.argv[1]).resolve(), sys.argv[2:]
    program = build / "t/unit/test_families"
    if not program.exists():
        sys.exit(f"{program} is missing: make it by `make t/unit/test_families` in the build folder")
    exact, wrong = print_families(build, program, [f for f in FAMILIES if not names or f["name"] in names])
    print(f"places of the list of 60 with a family that is exact: {len(exact)}: {sorted(exact)}\n")
    memory.print_models(build, names)
    wrong += readme.check(by_name)
    print("".join(f"{sentence}\n" for sentence in wrong), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
