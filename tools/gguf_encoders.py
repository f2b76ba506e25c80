#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes t/data/encoder/*.gguf: encoders of that folder as llama.cpp's converter writes them.

    pip install gguf numpy && tools/gguf_encoders.py [NAME...]

The names of tensors and keys are gguf's. As the converter does, it leaves a pooler out, marks the
first piece of a word instead of the others, and begins positions with those of the first token.
"""
import base64
import json
import pathlib
import sys

import gguf
import numpy

ROOT = pathlib.Path(__file__).parent.parent / "t/data/encoder"
NORMAL, UNKNOWN, CONTROL = 1, 2, 3
MARKS = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"


def tensors(folder):
    data = (folder / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    for name, t in json.loads(data[8:begin]).items():
        if name != "__metadata__" and "pooler" not in name and "position_ids" not in name:
            first, last = (begin + o for o in t["data_offsets"])
            yield name, numpy.frombuffer(data[first:last], numpy.float32).reshape(t["shape"])


def read_tokenizer(folder):
    return json.loads((folder / "tokenizer.json").read_text())


def vocabulary(folder):
    """Tokens by their ids, those that are special, and merges."""
    if (folder / "tokenizer.json").exists():
        tokenizer = read_tokenizer(folder)
        added = {t["content"]: t["id"] for t in tokenizer["added_tokens"]}
        ids = {**tokenizer["model"]["vocab"], **added}
        return sorted(ids, key=ids.get), set(added), tokenizer["model"].get("merges")
    return (folder / "vocab.txt").read_text().splitlines(), set(MARKS), None


def add_tokens(out, folder):
    tokens, special, merges = vocabulary(folder)
    cls, sep, unknown, padding = "[CLS]", "[SEP]", "[UNK]", "[PAD]"
    if merges is not None:
        cls, sep, unknown, padding = "<s>", "</s>", "<unk>", "<pad>"
        out.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
        out.add_eos_token_id(tokens.index(sep))
    out.add_tokenizer_model("gpt2" if merges is not None else "bert")
    out.add_tokenizer_pre("roberta-bpe" if merges is not None else "jina-v2-en")
    for add, name in ((out.add_bos_token_id, cls), (out.add_sep_token_id, sep),
                      (out.add_unk_token_id, unknown), (out.add_pad_token_id, padding)):
        add(tokens.index(name))
    out.add_token_types([CONTROL if t in special else NORMAL for t in tokens])
    if merges is None:
        tokens = [t if t in special else t[2:] if t.startswith("##") else "\u2581" + t for t in tokens]
    out.add_token_list(tokens)


def add_unigram(out, tokenizer):
    """XLM-RoBERTa's: scores, a table of characters, and white space as its pre-tokeniser has it."""
    vocab = tokenizer["model"]["vocab"]
    added = [t["content"] for t in tokenizer["added_tokens"] if t["id"] >= len(vocab)]
    special = {t["content"] for t in tokenizer["added_tokens"]}
    tokens = [token for token, _ in vocab] + added
    out.add_tokenizer_model("t5")
    out.add_tokenizer_pre("default")
    out.add_token_list(tokens)
    out.add_token_scores([float(score) for _, score in vocab] + [-1000.0] * len(added))
    out.add_token_types([UNKNOWN if t == "<unk>" else CONTROL if t in special else NORMAL for t in tokens])
    out.add_add_space_prefix(True)
    out.add_remove_extra_whitespaces(True)
    out.add_precompiled_charsmap(base64.b64decode(tokenizer["normalizer"]["precompiled_charsmap"]))
    for add, name in ((out.add_bos_token_id, "<s>"), (out.add_eos_token_id, "</s>"), (out.add_sep_token_id, "</s>"),
                      (out.add_unk_token_id, "<unk>"), (out.add_pad_token_id, "<pad>")):
        add(tokens.index(name))
    out.add_add_bos_token(True)
    out.add_add_eos_token(True)


def pooling_type(folder):
    if not (folder / "1_Pooling").exists():
        return gguf.PoolingType.RANK
    pooling = json.loads((folder / "1_Pooling/config.json").read_text())
    return gguf.PoolingType.CLS if pooling["pooling_mode_cls_token"] else gguf.PoolingType.MEAN


def convert_gemma(name):
    """EmbeddingGemma with the tokeniser of BERT, which is not looked at; norms include the 1 that the model adds."""
    folder = ROOT / name
    config = json.loads((folder / "config.json").read_text())
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GEMMA_EMBEDDING, config["num_hidden_layers"])
    out = gguf.GGUFWriter(ROOT / f"{name}.gguf", "gemma-embedding")
    out.add_block_count(config["num_hidden_layers"])
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(config["num_attention_heads"])
    out.add_head_count_kv(config["num_key_value_heads"])
    out.add_key_length(config["head_dim"])
    out.add_value_length(config["head_dim"])
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    out.add_rope_freq_base(config["rope_parameters"]["full_attention"]["rope_theta"])
    out.add_rope_freq_base_swa(config["rope_parameters"]["sliding_attention"]["rope_theta"])
    out.add_sliding_window(config["sliding_window"])
    out.add_sliding_window_pattern([t == "sliding_attention" for t in config["layer_types"]])
    out.add_causal_attention(False)
    out.add_pooling_type(pooling_type(folder))
    add_tokens(out, folder)
    for own, tensor in tensors(folder):
        tensor = tensor + 1 if "norm" in own else tensor
        out.add_tensor(names.get_name(own, (".weight", ".bias")), numpy.ascontiguousarray(tensor))
    for dense in 2, 3:
        for _, tensor in tensors(folder / f"{dense}_Dense"):
            out.add_dense_features_dims(f"dense_{dense}", tensor.shape[1], tensor.shape[0])
            out.add_tensor(f"dense_{dense}.weight", numpy.ascontiguousarray(tensor))
    write(out)


def convert_nomic(name):
    folder = ROOT / name
    config = json.loads((folder / "config.json").read_text())
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.NOMIC_BERT, config["n_layer"])
    out = gguf.GGUFWriter(ROOT / f"{name}.gguf", "nomic-bert")
    out.add_block_count(config["n_layer"])
    out.add_context_length(config["n_positions"])
    out.add_embedding_length(config["n_embd"])
    out.add_feed_forward_length(config["n_inner"])
    out.add_head_count(config["n_head"])
    out.add_layer_norm_eps(config["layer_norm_epsilon"])
    out.add_rope_freq_base(float(config["rotary_emb_base"]))
    out.add_causal_attention(False)
    out.add_pooling_type(pooling_type(folder))
    out.add_token_type_count(config["type_vocab_size"])
    add_tokens(out, folder)
    for own, tensor in tensors(folder):
        out.add_tensor(names.get_name(own, (".weight", ".bias")), numpy.ascontiguousarray(tensor))
    write(out)


def write(out):
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def convert(name):
    if name in ("gemma", "nomic"):
        return convert_gemma(name) if name == "gemma" else convert_nomic(name)
    folder = ROOT / name
    config = json.loads((folder / "config.json").read_text())
    skipped = config.get("pad_token_id", 1) + 1 if "roberta" in config["model_type"] else 0
    layers = config["num_hidden_layers"]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, layers)
    out = gguf.GGUFWriter(ROOT / f"{name}.gguf", "bert")
    out.add_block_count(layers)
    out.add_context_length(config["max_position_embeddings"] - skipped)
    out.add_embedding_length(config["hidden_size"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(config["num_attention_heads"])
    out.add_layer_norm_eps(config["layer_norm_eps"])
    out.add_causal_attention(False)
    out.add_pooling_type(pooling_type(folder))
    out.add_token_type_count(config["type_vocab_size"])
    if config["model_type"] == "xlm-roberta":
        add_unigram(out, read_tokenizer(folder))
    else:
        add_tokens(out, folder)
    for own, tensor in tensors(folder):
        if own.endswith("position_embeddings.weight"):
            tensor = tensor[skipped:]
        out.add_tensor(names.get_name(own.removeprefix("roberta."), (".weight", ".bias")), numpy.ascontiguousarray(tensor))
    write(out)


for model in sys.argv[1:] or ("cls", "roberta", "xlmr", "xlmr-pair", "nomic", "gemma"):
    convert(model)
