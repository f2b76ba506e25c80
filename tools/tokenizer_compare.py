#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our tokeniser beside the reference library: the same ids, the same text, as fast?

    pip install tokenizers
    tools/tokenizer_compare.py BUILD/bench/tokenizer FOLDER [TEXT [COUNT]]

FOLDER holds tokenizer.json. COUNT (10,000) random Unicode strings are encoded and decoded
by both; of TEXT the first MB is encoded by both, the reference on one thread.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import time
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tokenizer_vectors as vectors


def strings(count, added, seed=20261121):
    draw = random.Random(seed)
    alphabet = vectors.characters()
    made = []
    while len(made) < count:
        candidate = vectors.text(draw, alphabet, added)
        # the reference's Unicode tables are older than ours: see tokenizer_vectors.py
        if tokenizers.normalizers.NFKC().normalize_str(candidate) == \
                unicodedata.normalize("NFKC", candidate):
            made.append(candidate)
    return made


def compare(ours, folder, reference, count):
    texts = strings(count, [t.content for t in reference.get_added_tokens_decoder().values()])
    said = subprocess.run([ours, folder, "--ids"], input="\n".join(map(json.dumps, texts)),
                          capture_output=True, text=True, check=True).stdout
    got = [json.loads(line) for line in said.split("\n") if line]
    assert len(got) == len(texts), (len(got), len(texts))
    wrong = 0
    for text, (ids, decoded) in zip(texts, got):
        want = reference.encode(text).ids
        back = reference.decode(want, skip_special_tokens=False)
        if ids != want or decoded != back:
            wrong += 1
            if wrong <= 5:
                print(f"  {text!r}\n    ids  {ids}\n    not  {want}\n    text {decoded!r}\n    not  {back!r}")
    print(f"{folder}: {len(texts)} strings, {wrong} differ")
    return wrong


def speed(ours, folder, reference, path):
    text = open(path, "rb").read(1 << 20).decode("utf-8", "ignore")
    best = cpu = 1e9
    for _ in range(5):
        start, cpu_start = time.perf_counter(), time.process_time()
        reference.encode(text, add_special_tokens=False)
        best, cpu = min(best, time.perf_counter() - start), min(cpu, time.process_time() - cpu_start)
    print(subprocess.run([ours, folder, path], capture_output=True, text=True, check=True).stdout, end="")
    size = len(text.encode())
    print(f"reference: {size} bytes, encode {best * 1e3:.2f} ms, {size / best / 1e6:.2f} MB/s"
          f" (CPU {size / cpu / 1e6:.2f})"
          f" (tokenizers {tokenizers.__version__}, one thread)")


def main():
    ours, folder = sys.argv[1:3]
    reference = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
    reference.no_truncation()
    reference.no_padding()
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 10000
    wrong = compare(ours, folder, reference, count)
    if len(sys.argv) > 3:
        speed(ours, folder, reference, sys.argv[3])
    sys.exit(wrong > 0)


main()
