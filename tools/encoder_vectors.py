# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny random encoders under t/data/encoder and their vectors by transformers and torch.

    encoder_vectors.py --out t/data/encoder

A folder is one of sentence-transformers; reference.json has texts and the unit vectors that the model makes of them in
float32. `mean` has a tokenizer.json and heads of 16, `cls` a vocab.txt and heads of 10 (no multiple of 8).
"""
import argparse
import json
import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel

TEXTS = [
    "", "hello", "Hello, World!", "the quick brown fox jumps over the lazy dog", "café naïve ÉCOLE",
    "unknownword " * 3, "a list of ten words, please: one two three four five six seven eight nine ten",
    "你好 hello", "write a story about a dog and a fox. " * 12
]
WORDS = ("the a an of and to in is it you that he was for on are with as his they be at one have this from or had by "
         "hot but some what there we can out other were all your when up use word how said each she which do their "
         "time if will way about many then them would write like so these her long make thing see him two has look "
         "more day could go come did my sound no most number who over know water than call first people may down "
         "story dog fox quick brown lazy jumps list ten please three four five six seven eight nine hello world cafe "
         "naive ecole").split()


def vocabulary():
    letters = [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + letters + ["##" + c for c in letters if c.isalnum()] + [
        w for w in dict.fromkeys(WORDS) if len(w) > 1
    ]


def tokenizer(vocab):
    t = Tokenizer(models.WordPiece({w: i for i, w in enumerate(vocab)}, unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    t.decoder = decoders.WordPiece()
    t.add_special_tokens(vocab[:5])
    return t


def make(folder, hidden, heads, ffn, pooling, max_tokens, with_json):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    vocab = vocabulary()
    config = BertConfig(vocab_size=len(vocab), hidden_size=hidden, num_hidden_layers=2, num_attention_heads=heads,
                        intermediate_size=ffn, max_position_embeddings=96, type_vocab_size=2)
    torch.manual_seed(hidden)
    model = BertModel(config, add_pooling_layer=False).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "LayerNorm.weight" in name:
                p.copy_(1 + 0.2 * torch.randn_like(p))
            elif p.dim() == 1:
                p.copy_(0.2 * torch.randn_like(p))
            else:
                p.copy_(torch.randn_like(p) * (0.5 if "embeddings" in name else 1.5 / p.shape[1]**0.5))
    save_file({k: v.contiguous() for k, v in model.state_dict().items() if v.is_floating_point()},
              folder / "model.safetensors")
    written = {**config.to_dict(), "architectures": ["BertModel"], "torch_dtype": "float32"}
    keep = ("architectures", "model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
            "intermediate_size", "hidden_act", "max_position_embeddings", "type_vocab_size", "layer_norm_eps",
            "torch_dtype")
    (folder / "config.json").write_text(json.dumps({k: written[k] for k in keep}, indent=1) + "\n")
    (folder / "1_Pooling/config.json").write_text(
        json.dumps({"word_embedding_dimension": hidden, "pooling_mode_cls_token": pooling == "cls",
                    "pooling_mode_mean_tokens": pooling == "mean"}, indent=1) + "\n")
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_tokens}) + "\n")
    t = tokenizer(vocab)
    if with_json:
        t.save(str(folder / "tokenizer.json"), pretty=False)
    else:
        (folder / "vocab.txt").write_text("\n".join(vocab) + "\n")
    t.enable_truncation(max_tokens)
    vectors = []
    for text in TEXTS:
        ids = torch.tensor([t.encode(text).ids])
        with torch.no_grad():
            rows = model(ids).last_hidden_state[0]
        v = rows[0] if pooling == "cls" else rows.mean(0)
        vectors.append([float(f"{x:.7g}") for x in v / v.norm()])
    (folder / "reference.json").write_text(
        json.dumps({"texts": TEXTS, "vectors": vectors}, separators=(",", ":"), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    make(out / "mean", 64, 4, 128, "mean", 80, True)
    make(out / "cls", 40, 4, 96, "cls", 64, False)
