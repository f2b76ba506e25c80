# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny random encoders under t/data/encoder and their vectors by transformers and torch.

    encoder_vectors.py --out t/data/encoder [NAME...]

A folder is one of sentence-transformers; reference.json has texts, their token ids and the unit vectors that the model
makes of them in float32. `mean` has a tokenizer.json and heads of 16, `cls` a vocab.txt and heads of 10 (no multiple of
8), `roberta` byte-level BPE and positions that begin at 2, `xlmr` the tokeniser of t/data/tokenizer/unigram. `pair`,
`roberta-pair` and `xlmr-pair` are cross-encoders: reference.json has pairs of texts, their ids, and the head's number of
each; those of `pair` and `xlmr-pair` are to go through the logistic function, that of `roberta-pair` is said to be the
score as it is.
"""
import argparse
import json
import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (BertConfig, BertForSequenceClassification, BertModel, RobertaConfig,
                          RobertaForSequenceClassification, RobertaModel, XLMRobertaConfig,
                          XLMRobertaForSequenceClassification, XLMRobertaModel)

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


def byte_level_tokenizer():
    t = Tokenizer(models.BPE(unk_token=None))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    t.train_from_iterator([" ".join(WORDS)], trainers.BpeTrainer(
        vocab_size=330, special_tokens=marks, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    return t


def randomised(build, seed):
    torch.manual_seed(seed)
    model = build()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "LayerNorm.weight" in name:
                p.copy_(1 + 0.2 * torch.randn_like(p))
            elif p.dim() == 1:
                p.copy_(0.2 * torch.randn_like(p))
            else:
                p.copy_(torch.randn_like(p) * (0.5 if "embeddings" in name else 1.5 / p.shape[1]**0.5))
    return model.eval()


def save_model(folder, model, architecture, **more):
    folder.mkdir(parents=True, exist_ok=True)
    save_file({k: v.contiguous() for k, v in model.state_dict().items() if v.is_floating_point()},
              folder / "model.safetensors")
    written = {**model.config.to_dict(), "architectures": [architecture], "torch_dtype": "float32", **more}
    keep = ("architectures", "model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
            "intermediate_size", "hidden_act", "max_position_embeddings", "type_vocab_size", "layer_norm_eps",
            "torch_dtype", *more)
    (folder / "config.json").write_text(json.dumps({k: written[k] for k in keep}, indent=1) + "\n")


def save_reference(folder, **members):
    (folder / "reference.json").write_text(json.dumps(members, separators=(",", ":"), ensure_ascii=False) + "\n")


def rounded(numbers):
    return [float(f"{x:.7g}") for x in numbers]


def make(folder, build, config, architecture, t, pooling, max_tokens, with_json=True, **more):
    model = randomised(lambda: build(config, add_pooling_layer=False), config.hidden_size)
    save_model(folder, model, architecture, **more)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling/config.json").write_text(
        json.dumps({"word_embedding_dimension": model.config.hidden_size, "pooling_mode_cls_token": pooling == "cls",
                    "pooling_mode_mean_tokens": pooling == "mean"}, indent=1) + "\n")
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_tokens}) + "\n")
    if with_json:
        t.save(str(folder / "tokenizer.json"), pretty=False)
    else:
        (folder / "vocab.txt").write_text("\n".join(vocabulary()) + "\n")
    t.enable_truncation(max_tokens)
    all_ids = [t.encode(text).ids for text in TEXTS]
    vectors = []
    for ids in all_ids:
        with torch.no_grad():
            rows = model(torch.tensor([ids])).last_hidden_state[0]
        v = rows[0] if pooling == "cls" else rows.mean(0)
        vectors.append(rounded(v / v.norm()))
    save_reference(folder, texts=TEXTS, ids=all_ids, vectors=vectors)


PAIRS = [["hello", "Hello, World!"], ["who would like to see the long story", "the quick brown fox jumps"], ["", "dog"],
         ["a dog", ""], ["unknownword", "write a story about a dog and a fox. " * 2]]


def make_pairs(folder, build, config, architecture, t, **more):
    model = randomised(lambda: build(config), config.hidden_size)
    save_model(folder, model, architecture, id2label={"0": "LABEL_0"}, **more)
    t.save(str(folder / "tokenizer.json"), pretty=False)
    encoded = [t.encode(a, b) for a, b in PAIRS]
    scores = []
    for e in encoded:
        with torch.no_grad():
            types = torch.tensor([e.type_ids if model.config.type_vocab_size > 1 else [0] * len(e.ids)])
            scores += rounded(model(torch.tensor([e.ids]), token_type_ids=types).logits[0])
    save_reference(folder, pairs=PAIRS, ids=[e.ids for e in encoded], scores=scores)


def bert(hidden, heads, ffn, **more):
    return BertConfig(vocab_size=len(vocabulary()), hidden_size=hidden, num_hidden_layers=2, num_attention_heads=heads,
                      intermediate_size=ffn, max_position_embeddings=96, type_vocab_size=2, **more)


def roberta(**more):
    return RobertaConfig(vocab_size=byte_level_tokenizer().get_vocab_size(), hidden_size=32, num_hidden_layers=2,
                         num_attention_heads=4, intermediate_size=64, max_position_embeddings=98, type_vocab_size=1,
                         layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2, **more)


def unigram_tokenizer():
    return Tokenizer.from_file(str(Path(__file__).parent.parent / "t/data/tokenizer/unigram/tokenizer.json"))


def xlmr(**more):
    return XLMRobertaConfig(vocab_size=unigram_tokenizer().get_vocab_size(), hidden_size=32, num_hidden_layers=2,
                            num_attention_heads=4, intermediate_size=64, max_position_embeddings=98, type_vocab_size=1,
                            layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2, **more)


MAKERS = {
    "mean": lambda f: make(f, BertModel, bert(64, 4, 128), "BertModel", tokenizer(vocabulary()), "mean", 80),
    "cls": lambda f: make(f, BertModel, bert(40, 4, 96), "BertModel", tokenizer(vocabulary()), "cls", 64, False),
    "roberta": lambda f: make(f, RobertaModel, roberta(), "RobertaModel", byte_level_tokenizer(), "mean", 80,
                              pad_token_id=1),
    "xlmr": lambda f: make(f, XLMRobertaModel, xlmr(), "XLMRobertaModel", unigram_tokenizer(), "cls", 80, pad_token_id=1),
    "xlmr-pair": lambda f: make_pairs(f, XLMRobertaForSequenceClassification, xlmr(num_labels=1),
                                      "XLMRobertaForSequenceClassification", unigram_tokenizer(), pad_token_id=1),
    "pair": lambda f: make_pairs(f, BertForSequenceClassification, bert(32, 4, 64, num_labels=1),
                                 "BertForSequenceClassification", tokenizer(vocabulary())),
    "roberta-pair": lambda f: make_pairs(
        f, RobertaForSequenceClassification, roberta(num_labels=1), "RobertaForSequenceClassification",
        byte_level_tokenizer(), pad_token_id=1,
        sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity", "version": "5.0.0"}),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("names", nargs="*", default=list(MAKERS), metavar="NAME", help=", ".join(MAKERS))
    args = parser.parse_args()
    for name in args.names or MAKERS:
        MAKERS[name](args.out / name)
