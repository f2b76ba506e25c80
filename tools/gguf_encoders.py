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


def begin(name, arch, own, config, skipped=0):
    """A writer with the keys that all have, and the names of tensors; own: config.json's names of the five sizes."""
    layers, context, hidden, ffn, heads = (config[key] for key in own)
    out = gguf.GGUFWriter(ROOT / f"{name}.gguf", gguf.MODEL_ARCH_NAMES[arch])
    out.add_block_count(layers)
    out.add_context_length(context - skipped)
    out.add_embedding_length(hidden)
    out.add_feed_forward_length(ffn)
    out.add_head_count(heads)
    out.add_causal_attention(False)
    out.add_pooling_type(pooling_type(ROOT / name))
    return out, gguf.get_tensor_name_map(arch, layers)


SIZES = "num_hidden_layers", "max_position_embeddings", "hidden_size", "intermediate_size", "num_attention_heads"
NOMIC_SIZES = "n_layer", "n_positions", "n_embd", "n_inner", "n_head"


def add(out, names, own, tensor):
    out.add_tensor(names.get_name(own, (".weight", ".bias")), numpy.ascontiguousarray(tensor))


def read_config(name):
    return json.loads((ROOT / name / "config.json").read_text())


def convert_gemma(name):
    """EmbeddingGemma with the tokeniser of BERT, which is not looked at; norms include the 1 that the model adds."""
    folder, config = ROOT / name, read_config(name)
    out, names = begin(name, gguf.MODEL_ARCH.GEMMA_EMBEDDING, SIZES, config)
    out.add_head_count_kv(config["num_key_value_heads"])
    out.add_key_length(config["head_dim"])
    out.add_value_length(config["head_dim"])
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    out.add_rope_freq_base(config["rope_parameters"]["full_attention"]["rope_theta"])
    out.add_rope_freq_base_swa(config["rope_parameters"]["sliding_attention"]["rope_theta"])
    out.add_sliding_window(config["sliding_window"])
    out.add_sliding_window_pattern([t == "sliding_attention" for t in config["layer_types"]])
    add_tokens(out, folder)
    for own, tensor in tensors(folder):
        add(out, names, own, tensor + 1 if "norm" in own else tensor)
    for dense in 2, 3:
        for _, tensor in tensors(folder / f"{dense}_Dense"):
            out.add_dense_features_dims(f"dense_{dense}", tensor.shape[1], tensor.shape[0])
            out.add_tensor(f"dense_{dense}.weight", numpy.ascontiguousarray(tensor))
    write(out)


def convert_nomic(name):
    config = read_config(name)
    out, names = begin(name, gguf.MODEL_ARCH.NOMIC_BERT, NOMIC_SIZES, config)
    out.add_layer_norm_eps(config["layer_norm_epsilon"])
    out.add_rope_freq_base(float(config["rotary_emb_base"]))
    out.add_token_type_count(config["type_vocab_size"])
    add_tokens(out, ROOT / name)
    for own, tensor in tensors(ROOT / name):
        add(out, names, own, tensor)
    write(out)


def convert_modernbert(name):
    """Keys of older folders or of transformers 5; names of a classifier as the converter changes them."""
    config = read_config(name)
    rope = config.get("rope_parameters", {})
    out, names = begin(name, gguf.MODEL_ARCH.MODERN_BERT, SIZES, config)
    out.add_layer_norm_eps(config["norm_eps"])
    out.add_rope_freq_base(rope["full_attention"]["rope_theta"] if rope else config["global_rope_theta"])
    out.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"] if rope else config["local_rope_theta"])
    out.add_sliding_window(config["local_attention"])
    out.add_sliding_window_pattern(config.get("global_attn_every_n_layers", 3))
    out.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    out.add_vocab_size(config["vocab_size"])
    if config.get("classifier_pooling") == "cls":  # files of "mean" are as older converters wrote them
        out.add_uint32("modern-bert.classifier.pooling_type", gguf.PoolingType.CLS)
    add_tokens(out, ROOT / name)
    for own, tensor in tensors(ROOT / name):
        add(out, names, own.removeprefix("model.").replace("classifier.", "classifier.out_proj."), tensor)
    write(out)


def write(out):
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def convert(name):
    if name in ("gemma", "nomic"):
        return convert_gemma(name) if name == "gemma" else convert_nomic(name)
    if name.startswith("modernbert"):
        return convert_modernbert(name)
    folder, config = ROOT / name, read_config(name)
    skipped = config.get("pad_token_id", 1) + 1 if "roberta" in config["model_type"] else 0
    out, names = begin(name, gguf.MODEL_ARCH.BERT, SIZES, config, skipped)
    out.add_layer_norm_eps(config["layer_norm_eps"])
    out.add_token_type_count(config["type_vocab_size"])
    if config["model_type"] == "xlm-roberta":
        add_unigram(out, read_tokenizer(folder))
    else:
        add_tokens(out, folder)
    for own, tensor in tensors(folder):
        cut = own.endswith("position_embeddings.weight")
        add(out, names, own.removeprefix("roberta."), tensor[skipped:] if cut else tensor)
    write(out)


for model in sys.argv[1:] or ("cls", "roberta", "xlmr", "xlmr-pair", "nomic", "gemma", "modernbert", "modernbert-pair",
                              "modernbert-cls-pair"):
    convert(model)
