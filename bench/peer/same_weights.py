# SPDX-License-Identifier: Apache-2.0
"""Writes one model as a folder in bf16 and as a GGUF of each format, for servers which read only one of them.

    same_weights.py SMOLLM2.gguf smollm2|1.1b FOLDER FORMAT...

smollm2: the weights of SMOLLM2.gguf, unpacked. 1.1b: random weights in the shape of TinyLlama-1.1B behind
SmolLM2's vocabulary, normal with a deviation of 0.02; measurements of time depend on shapes only.
FOLDER gets config.json, tokenizer.json and model.safetensors; FOLDER-FORMAT.gguf stand beside it. Formats are
BF16, F16, Q8_0 and Q4_0; every matrix has the file's format.
"""
import json
import os
import struct
import sys

import gguf
import numpy as np

KEYS = {"hidden_size": "embedding_length", "intermediate_size": "feed_forward_length",
        "num_hidden_layers": "block_count", "num_attention_heads": "attention.head_count",
        "num_key_value_heads": "attention.head_count_kv", "max_position_embeddings": "context_length",
        "rms_norm_eps": "attention.layer_norm_rms_epsilon", "rope_theta": "rope.freq_base"}
TINY = {"embedding_length": 2048, "feed_forward_length": 5632, "block_count": 22, "attention.head_count": 32,
        "attention.head_count_kv": 4, "rope.dimension_count": 64}
NAMES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def fields(reader, name):
    values = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    if name == "1.1b":
        values.update({f"llama.{key}": value for key, value in TINY.items()})
    return values


def tensors(reader, values, name):
    """Yields each tensor's name and values. Small models share the vocabulary's matrix; 1.1b has its own head."""
    if name == "smollm2":
        for tensor in reader.tensors:
            yield tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        return
    random = np.random.default_rng(1)
    hidden, ffn = TINY["embedding_length"], TINY["feed_forward_length"]
    kv = TINY["attention.head_count_kv"] * TINY["rope.dimension_count"]
    vocabulary = len(values["tokenizer.ggml.tokens"])
    shapes = {"token_embd": (vocabulary, hidden), "output": (vocabulary, hidden), "output_norm": (hidden,)}
    layer = {"attn_norm": (hidden,), "ffn_norm": (hidden,), "attn_q": (hidden, hidden), "attn_k": (kv, hidden),
             "attn_v": (kv, hidden), "attn_output": (hidden, hidden), "ffn_gate": (ffn, hidden),
             "ffn_up": (ffn, hidden), "ffn_down": (hidden, ffn)}
    for i in range(TINY["block_count"]):
        shapes.update({f"blk.{i}.{part}": shape for part, shape in layer.items()})
    for part, shape in shapes.items():
        flat = len(shape) == 1
        yield part + ".weight", np.ones(shape, np.float32) if flat else random.standard_normal(shape, np.float32) * 0.02


def as_bf16(values):
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def folder_name(part):
    outside = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
               "output.weight": "lm_head.weight"}
    if part in outside:
        return outside[part]
    _, layer, kind, _ = part.split(".")
    return f"model.layers.{layer}.{NAMES[kind]}.weight"


def folder_order(part, weights, values):
    """GGUF keeps the two numbers that a rotation turns side by side, folders half a head apart."""
    kind = part.split(".")[-2]
    if kind not in ("attn_q", "attn_k"):
        return weights
    heads = values["llama.attention.head_count" + ("_kv" if kind == "attn_k" else "")]
    pairs = weights.reshape(heads, weights.shape[0] // heads // 2, 2, weights.shape[1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weights.shape)


def write_folder(folder, values, weights):
    os.makedirs(folder, exist_ok=True)
    header, at = {}, 0
    for name, data in weights.items():
        header[name] = {"dtype": "BF16", "shape": list(data.shape), "data_offsets": [at, at + data.nbytes]}
        at += data.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for data in weights.values():
            file.write(data.tobytes())
    config = {key: values[f"llama.{name}"] for key, name in KEYS.items()}
    config.update(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", torch_dtype="bfloat16",
                  vocab_size=len(values["tokenizer.ggml.tokens"]), tie_word_embeddings="lm_head.weight" not in weights,
                  bos_token_id=values["tokenizer.ggml.bos_token_id"], eos_token_id=values["tokenizer.ggml.eos_token_id"])
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config, file, indent=2)


def write_tokenizer(folder, values):
    tokens, kinds = values["tokenizer.ggml.tokens"], values["tokenizer.ggml.token_type"]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, token in enumerate(tokens) if kinds[i] == gguf.TokenType.CONTROL]
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "vocab": {token: i for i, token in enumerate(tokens)}, "merges": values["tokenizer.ggml.merges"]}
    with open(f"{folder}/tokenizer.json", "w") as file:
        json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                   "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model}, file)
    with open(f"{folder}/tokenizer_config.json", "w") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast",
                   "eos_token": tokens[values["tokenizer.ggml.eos_token_id"]]}, file)


def write_gguf(path, kind, reader, values, weights):
    writer = gguf.GGUFWriter(path + ".part", "llama")
    writer.add_file_type(gguf.LlamaFileType["MOSTLY_" + kind.name])
    for key, value in values.items():
        if key not in ("general.architecture", "general.file_type"):
            kinds = reader.fields[key].types
            writer.add_key_value(key, value, kinds[0], kinds[-1] if len(kinds) > 1 else None)
    for part, data in weights.items():
        if data.ndim == 1:
            writer.add_tensor(part, data)
        else:
            writer.add_tensor(part, gguf.quants.quantize(data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.rename(path + ".part", path)


def main(source, name, folder, *formats):
    reader = gguf.GGUFReader(source)
    values = fields(reader, name)
    weights = dict(tensors(reader, values, name))
    write_folder(folder, values, {folder_name(part): as_bf16(folder_order(part, data, values))
                                  for part, data in weights.items()})
    write_tokenizer(folder, values)
    for kind in formats:
        write_gguf(f"{folder}-{kind}.gguf", gguf.GGMLQuantizationType[kind], reader, values, weights)


main(*sys.argv[1:])
