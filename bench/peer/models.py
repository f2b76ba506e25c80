# SPDX-License-Identifier: Apache-2.0
"""Writes a random GGUF in the shape of TinyLlama-1.1B in f16; llama-quantize makes the other formats from it.

    models.py FILE

Weights are normal with a deviation of 0.02, the vocabulary is 3 control tokens, 256 bytes and
words without meaning, since measurements depend on shapes only.
"""
import sys

import gguf
import numpy as np

LAYERS, HIDDEN, HEADS, KV_HEADS, FFN, VOCAB, CONTEXT = 22, 2048, 32, 4, 5632, 32000, 4096


def vocabulary(writer):
    words = VOCAB - 259
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tokens += [f"\u2581w{i:05d}" for i in range(words)]
    kinds = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2
    kinds += [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * words
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + [-float(i) for i in range(words)])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def tensors():
    kv = KV_HEADS * HIDDEN // HEADS
    yield "token_embd.weight", (VOCAB, HIDDEN)
    yield "output.weight", (VOCAB, HIDDEN)
    yield "output_norm.weight", (HIDDEN,)
    for i in range(LAYERS):
        yield f"blk.{i}.attn_norm.weight", (HIDDEN,)
        yield f"blk.{i}.ffn_norm.weight", (HIDDEN,)
        yield f"blk.{i}.attn_q.weight", (HIDDEN, HIDDEN)
        yield f"blk.{i}.attn_k.weight", (kv, HIDDEN)
        yield f"blk.{i}.attn_v.weight", (kv, HIDDEN)
        yield f"blk.{i}.attn_output.weight", (HIDDEN, HIDDEN)
        yield f"blk.{i}.ffn_gate.weight", (FFN, HIDDEN)
        yield f"blk.{i}.ffn_up.weight", (FFN, HIDDEN)
        yield f"blk.{i}.ffn_down.weight", (HIDDEN, FFN)


def main(path):
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("random-1.1b")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCAB)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    vocabulary(writer)
    for name, shape in tensors():
        if len(shape) == 1:
            writer.add_tensor(name, np.ones(shape, np.float32))
        else:
            writer.add_tensor(name, (random.standard_normal(shape, np.float32) * 0.02).astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(sys.argv[1])
