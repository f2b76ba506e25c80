#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real tokenisers cut down to what some texts need, so that they fit into t/data.

    pip install tokenizers
    tools/tokenizer_golden.py FOLDER NAME.inp NAME.out OUT

FOLDER holds a tokenizer.json, or vocab.json and merges.txt, of a model; NAME.inp and
NAME.out are llama.cpp's vectors (models/ggml-vocab-NAME.gguf.inp, MIT): texts, and the ids
that the reference gives them without special tokens. OUT gets the same files with the
tokens and merges that these texts use, under their real ids, and vectors.json as
tokenizer_vectors.py writes it.

That changes no id: BPE takes the best pair that there is, so merges that never were the
best never mattered; WordPiece takes the longest piece, so pieces never taken did not either.
"""
import json
import pathlib
import re
import sys

import tokenizers
from tokenizers import pre_tokenizers

SEPARATOR = "\n__ggml_vocab_test__\n"


def load(folder):
    if (folder / "tokenizer.json").exists():
        return json.loads((folder / "tokenizer.json").read_text())
    vocab = json.loads((folder / "vocab.json").read_text())
    merges = (folder / "merges.txt").read_text().split("\n")
    return {"model": {"type": "BPE", "vocab": vocab, "merges": [m for m in merges[1:] if m]},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}}


def merges_of(words, ranks):
    """The pairs that are joined on the way from characters to tokens."""
    used = set()
    for word in words:
        parts = list(word)
        while True:
            pairs = [(ranks[p], i) for i, p in enumerate(zip(parts, parts[1:])) if p in ranks]
            if not pairs:
                break
            i = min(pairs)[1]
            used.add((parts[i], parts[i + 1]))
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
    return used


def shrink_bpe(source, reference, texts):
    model = source["model"]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    added = sorted((t["content"] for t in source.get("added_tokens") or []), key=len, reverse=True)
    parts = [p for t in texts for p in (re.split("|".join(map(re.escape, added)), t) if added else [t])]
    normal = [reference.normalizer.normalize_str(p) if reference.normalizer else p for p in parts]
    words = {w for t in normal for w, _ in reference.pre_tokenizer.pre_tokenize_str(t)}
    used = merges_of(words, ranks)
    wanted = {part for pair in used for part in (*pair, "".join(pair))}
    wanted |= set(pre_tokenizers.ByteLevel.alphabet())
    wanted |= set(added)
    wanted |= {t for t in model["vocab"] if t.startswith("<") and t.endswith(">")}
    model["vocab"] = {t: i for t, i in model["vocab"].items() if t in wanted}
    # where they are not in it, the reference numbers added tokens from the vocabulary's size
    model["vocab"].update({t["content"]: t["id"] for t in source.get("added_tokens") or []})
    model["merges"] = [" ".join(pair) for pair in merges if pair in used]


def shrink_wordpiece(source, reference, texts):
    ids = {i for t in texts for i in reference.encode(t).ids}
    vocab = source["model"]["vocab"]
    source["model"]["vocab"] = {t: i for t, i in vocab.items() if i in ids or t.startswith("[")}


def write(source, folder, out):
    out.mkdir(parents=True, exist_ok=True)
    compact = {"ensure_ascii": False, "separators": (",", ":")}
    if (folder / "tokenizer.json").exists():
        (out / "tokenizer.json").write_text(json.dumps(source, **compact) + "\n")
        return
    (out / "vocab.json").write_text(json.dumps(source["model"]["vocab"], **compact) + "\n")
    (out / "merges.txt").write_text("\n".join(["#version: 0.2"] + source["model"]["merges"]) + "\n")


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[4])
    texts = pathlib.Path(sys.argv[2]).read_bytes().decode().split(SEPARATOR)
    lines = pathlib.Path(sys.argv[3]).read_text().split("\n")
    source = load(folder)
    full = tokenizers.Tokenizer.from_str(json.dumps(dict({"added_tokens": []}, **source)))
    full.no_truncation(), full.no_padding()
    vectors = []
    for text, line in zip(texts, lines):
        assert full.encode(text, add_special_tokens=False).ids == [int(i) for i in line.split()], text
        ids = full.encode(text).ids
        vectors.append([text, ids, full.decode(ids, skip_special_tokens=False)])
    (shrink_bpe if source["model"].get("type", "BPE") == "BPE" else shrink_wordpiece)(source, full, texts)
    write(source, folder, out)
    small = tokenizers.Tokenizer.from_str(json.dumps(dict({"added_tokens": []}, **source)))
    small.no_truncation(), small.no_padding()
    for text, ids, _ in vectors:
        assert small.encode(text).ids == ids, (text, ids, small.encode(text).ids)
    (out / "vectors.json").write_text(
        "[\n" + ",\n".join(json.dumps(v, ensure_ascii=False) for v in vectors) + "\n]\n")
    print(f"{out}: {len(vectors)} texts, {len(source['model']['vocab'])} tokens")


main()
