#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes t/data/gguf: tokenisers in GGUF files and the ids that llama.cpp gives texts there.

    pip install gguf llama-cpp-python && tools/gguf_vectors.py

The vocabularies are those of t/data/tokenizer: the byte-level one of llama3 once for each
name that tokenizer.ggml.pre can have (one of each pattern), the one of llama2 with scores
instead of merges, and with both as Gemma 4's. texts.json has the texts, NAME.json a list of their ids by NAME.gguf.
The ids of gemma4 are by transformers' GemmaTokenizer: no llama-cpp-python had that kind.

    tools/gguf_vectors.py gemma4    that one alone, which needs transformers instead of llama-cpp-python
"""
import json
import pathlib

import sys

import gguf

ROOT = pathlib.Path(__file__).parent.parent / "t/data"
PRES = ["gpt-2", "llama-bpe", "qwen2", "smollm", "tekken", "gpt-4o", "deepseek-v3", "deepseek-coder", "deepseek-llm",
        "falcon", "default"]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6


def types_of(tokens, added):
    special = {t["content"] for t in added if t["special"]}
    return [UNKNOWN if t == "<unk>" else CONTROL if t in special
            else BYTE if t.startswith("<0x") and len(t) == 6 else NORMAL for t in tokens]


def sound(tokens, ids):
    """As SentencePiece makes them: every character of a token is a token."""
    return [t if t.startswith("<") or all(c in ids for c in t) else f"<unused{i}>"
            for i, t in enumerate(tokens)]


def write(name, model, tokenizer, pre=None):
    vocab = tokenizer["model"]["vocab"]
    ids = dict(vocab, **{t["content"]: t["id"] for t in tokenizer["added_tokens"]})
    tokens = sorted(ids, key=ids.get)
    assert [ids[t] for t in tokens] == list(range(len(tokens)))
    if pre is None and model == "llama":
        tokens = sound(tokens, ids)
    out = gguf.GGUFWriter(ROOT / "gguf" / f"{name}.gguf", "llama")
    for key, value in {"context_length": 64, "embedding_length": 32, "block_count": 0,
                       "feed_forward_length": 32}.items():
        out.add_uint32(f"llama.{key}", value)
    out.add_uint32("llama.attention.head_count", 1)
    out.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    out.add_tokenizer_model(model)
    out.add_token_list(tokens)
    out.add_token_types(types_of(tokens, tokenizer["added_tokens"]))
    if model == "gemma4":
        out.add_token_scores([0.0] * len(tokens))
        out.add_token_merges([" ".join(m) for m in tokenizer["model"]["merges"]])
        out.add_add_space_prefix(False)
    if pre is None and model == "llama":
        merges = [tuple(m) for m in tokenizer["model"]["merges"]]
        made = {"".join(m): -float(i) for i, m in enumerate(merges)}
        out.add_token_scores([made.get(t, -1e4) for t in tokens])
    if pre is None:
        out.add_unk_token_id(ids["<unk>"])
        out.add_bos_token_id(ids["<s>"])
        out.add_eos_token_id(ids["</s>"])
    else:
        out.add_tokenizer_pre(pre)
        out.add_token_merges([m if isinstance(m, str) else " ".join(m)
                              for m in tokenizer["model"]["merges"]])
        out.add_bos_token_id(ids["<|begin_of_text|>"])
        out.add_eos_token_id(ids["<|eot_id|>"])
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def write_list(name, ids):
    (ROOT / "gguf" / f"{name}.json").write_text(
        "[\n" + ",\n".join(json.dumps(i, separators=(",", ":")) for i in ids) + "\n]\n")


def write_gemma4(tokenizer, texts):
    """Merges that make no token of the vocabulary do not occur in such files."""
    from transformers import GemmaTokenizer
    model = GemmaTokenizer(vocab=tokenizer["model"]["vocab"], merges=[tuple(m) for m in tokenizer["model"]["merges"]],
                           bos_token="<s>", eos_token="</s>", pad_token="<unk>", mask_token="<unk>")
    write("gemma4", "gemma4", tokenizer)
    write_list("gemma4", [model.encode("<s>" + t) for t in texts])


def write_ids(name, texts):
    import llama_cpp
    model = llama_cpp.Llama(str(ROOT / "gguf" / f"{name}.gguf"), vocab_only=True, verbose=False)
    ids = [model.tokenize(t.encode(), add_bos=True, special=True) for t in texts]
    write_list(name, ids)


def main():
    read = lambda family, file: json.loads((ROOT / "tokenizer" / family / file).read_text())
    texts = [v[0] for v in read("llama3", "vectors.json")[:80] + read("llama2", "vectors.json")[40:70]]
    (ROOT / "gguf").mkdir(exist_ok=True)
    write_gemma4(read("llama2", "tokenizer.json"), texts)
    if sys.argv[1:] == ["gemma4"]:
        return
    for pre in PRES:
        write(pre, "gpt2", read("llama3", "tokenizer.json"), pre)
    write("llama", "llama", read("llama2", "tokenizer.json"))
    for name in PRES + ["llama"]:
        write_ids(name, texts)
    (ROOT / "gguf" / "texts.json").write_text(json.dumps(texts, indent=0) + "\n")


if __name__ == "__main__":
    main()
