# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny random encoders under t/data/encoder and their vectors by transformers and torch.

    encoder_vectors.py --out t/data/encoder [NAME...]

A folder is one of sentence-transformers; reference.json has texts, their token ids and the unit vectors that the model
makes of them in float32. `mean` has a tokenizer.json and heads of 16, `cls` a vocab.txt and heads of 10 (no multiple of
8), `roberta` byte-level BPE and positions that begin at 2, `xlmr` the tokeniser of t/data/tokenizer/unigram. `pair`,
`roberta-pair` and `xlmr-pair` are cross-encoders: reference.json has pairs of texts, their ids, and the head's number of
each (`modernbert-pair` has the mean of rows before its head, `modernbert-cls-pair` the first row); those of `pair` and `xlmr-pair` are to go through the logistic function, that of `roberta-pair` is said to be the
score as it is. `classes` has three classes: reference.json has texts, their ids, logits and probabilities. `modernbert`, `nomic`, `gte`, `mpnet` and `gemma` have the tensors' names and the keys of the folders that
their authors published: rotated positions, windows both ways (narrower than the texts), NTK scaling as in gte-base-en-v1.5,
numbers by distance, two Dense modules behind the mean.
"""
import argparse
import json
import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (BertConfig, BertForSequenceClassification, BertModel, Gemma3TextConfig, Gemma3TextModel, GteConfig,
                          GteModel, ModernBertConfig, ModernBertForSequenceClassification, ModernBertModel, MPNetConfig,
                          MPNetModel, NomicBertConfig, NomicBertModel, RobertaConfig, RobertaForSequenceClassification,
                          RobertaModel, XLMRobertaConfig, XLMRobertaForSequenceClassification, XLMRobertaModel)

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
            if "norm" in name.lower() and name.endswith("weight"):
                p.copy_((0 if "Gemma" in type(model).__name__ else 1) + 0.2 * torch.randn_like(p))
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


def save_pooling(folder, model, pooling, max_tokens):
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling/config.json").write_text(
        json.dumps({"word_embedding_dimension": model.config.hidden_size, "pooling_mode_cls_token": pooling == "cls",
                    "pooling_mode_mean_tokens": pooling == "mean"}, indent=1) + "\n")
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_tokens}) + "\n")


def save_vectors(folder, model, t, pooling, max_tokens, dense=()):
    t.enable_truncation(max_tokens)
    all_ids = [t.encode(text).ids for text in TEXTS]
    vectors = []
    for ids in all_ids:
        with torch.no_grad():
            rows = model(torch.tensor([ids])).last_hidden_state[0]
        v = rows[0] if pooling == "cls" else rows.mean(0)
        for matrix in dense:
            v = matrix @ v
        vectors.append(rounded(v / v.norm()))
    save_reference(folder, texts=TEXTS, ids=all_ids, vectors=vectors)


def make(folder, build, config, architecture, t, pooling, max_tokens, with_json=True, **more):
    model = randomised(lambda: build(config, add_pooling_layer=False), config.hidden_size)
    save_model(folder, model, architecture, **more)
    save_pooling(folder, model, pooling, max_tokens)
    if with_json:
        t.save(str(folder / "tokenizer.json"), pretty=False)
    else:
        (folder / "vocab.txt").write_text("\n".join(vocabulary()) + "\n")
    save_vectors(folder, model, t, pooling, max_tokens)


def save_dense(folder, sizes):
    """Writes Dense modules as sentence-transformers does; returns their matrices."""
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
               {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    matrices = []
    for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:]), start=2):
        matrices.append(torch.randn(outputs, inputs) / inputs**0.5)
        part = folder / f"{i}_Dense"
        part.mkdir(exist_ok=True)
        save_file({"linear.weight": matrices[-1]}, part / "model.safetensors")
        (part / "config.json").write_text(
            json.dumps({"in_features": inputs, "out_features": outputs, "bias": False,
                        "activation_function": "torch.nn.modules.linear.Identity"}) + "\n")
        modules.append({"idx": i, "name": str(i), "path": part.name, "type": "sentence_transformers.models.Dense"})
    if matrices:
        (folder / "modules.json").write_text(json.dumps(modules, indent=1) + "\n")
    return matrices


def make_published(folder, model, architecture, pooling, rename, dense=(), t=None):
    """A folder whose tensors have the published names, which save_pretrained restores; rename: config.json's keys from
    transformers' to the author's."""
    randomised(lambda: model, model.config.hidden_size)
    model.save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text())
    written = rename({k: v for k, v in written.items() if v is not None and not k.startswith(("id2", "label2"))})
    (folder / "config.json").write_text(json.dumps(written | {"architectures": [architecture]}, indent=1) + "\n")
    save_pooling(folder, model, pooling, 80)
    matrices = save_dense(folder, dense)
    t = t or tokenizer(vocabulary())
    t.save(str(folder / "tokenizer.json"), pretty=False)
    save_vectors(folder, model, t, pooling, 80, matrices)


SMALL = dict(vocab_size=len(vocabulary()), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
             max_position_embeddings=96, pad_token_id=0, bos_token_id=2, eos_token_id=3)
EAGER = dict(attn_implementation="eager")


def make_modernbert(folder):
    c = ModernBertConfig(**SMALL | {"num_hidden_layers": 4}, cls_token_id=2, sep_token_id=3, local_attention=14, **EAGER)

    def rename(written):
        for key in ("layer_types", "rope_parameters"):
            written.pop(key)
        return written | {"global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0}

    make_published(folder, ModernBertModel(c), "ModernBertModel", "cls", rename)


def make_nomic(folder):
    c = NomicBertConfig(**SMALL, type_vocab_size=2, layer_norm_eps=1e-12, **EAGER)

    def rename(written):
        older = {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_inner": 48, "n_positions": 96, "activation_function": "swiglu",
                 "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
                 "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None,
                 "max_trained_positions": 48, "prenorm": False, "causal": False, "qkv_proj_bias": False,
                 "mlp_fc1_bias": False, "mlp_fc2_bias": False, "use_rms_norm": False, "parallel_block": False}
        return {k: written[k] for k in ("vocab_size", "type_vocab_size", "model_type", "dtype")} | older

    make_published(folder, NomicBertModel(c), "NomicBertModel", "mean", rename)


def make_gte(folder):
    factor, head_dim = 2.0, 8
    rope = {"rope_type": "linear", "factor": factor**(2 / head_dim), "rope_theta": 500000.0 * factor}
    c = GteConfig(**SMALL, type_vocab_size=1, rope_parameters=rope, **EAGER)

    def rename(written):
        written.pop("rope_parameters")
        return written | {"model_type": "new", "rope_theta": 500000, "rope_scaling": {"factor": factor, "type": "ntk"},
                          "layer_norm_type": "layer_norm", "position_embedding_type": "rope", "pack_qkv": True,
                          "logn_attention_scale": False, "unpad_inputs": False}

    make_published(folder, GteModel(c), "NewModel", "cls", rename)


def make_mpnet(folder):
    t = byte_level_tokenizer()
    c = MPNetConfig(**SMALL | {"max_position_embeddings": 98, "pad_token_id": 1, "vocab_size": t.get_vocab_size()}, **EAGER)
    make_published(folder, MPNetModel(c, add_pooling_layer=False), "MPNetModel", "mean", lambda written: written, t=t)


def make_gemma(folder):
    c = Gemma3TextConfig(**SMALL | {"num_hidden_layers": 3}, num_key_value_heads=1, head_dim=8, sliding_window=12,
                         query_pre_attn_scalar=8, use_bidirectional_attention=True,
                         layer_types=["sliding_attention", "sliding_attention", "full_attention"], **EAGER)
    make_published(folder, Gemma3TextModel(c), "Gemma3TextModel", "mean", lambda written: written, [32, 48, 24])


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


def make_modernbert_pairs(folder, pooling, bias):
    c = ModernBertConfig(**SMALL | {"num_hidden_layers": 3}, cls_token_id=2, sep_token_id=3, local_attention=14, num_labels=1,
                         classifier_pooling=pooling, classifier_bias=bias, **EAGER)
    model = randomised(lambda: ModernBertForSequenceClassification(c), 7)
    model.save_pretrained(folder)
    t = tokenizer(vocabulary())
    t.save(str(folder / "tokenizer.json"), pretty=False)
    encoded = [t.encode(a, b) for a, b in PAIRS]
    with torch.no_grad():
        scores = [rounded(model(torch.tensor([e.ids])).logits[0])[0] for e in encoded]
    save_reference(folder, pairs=PAIRS, ids=[e.ids for e in encoded], scores=scores)


def make_classes(folder):
    t = tokenizer(vocabulary())
    names = {0: "calm", 1: "glad", 2: "sad"}
    model = randomised(lambda: BertForSequenceClassification(bert(32, 4, 64, num_labels=3)), 11)
    save_model(folder, model, "BertForSequenceClassification", id2label=names)
    t.save(str(folder / "tokenizer.json"))
    classes = []
    for text in ("one two three", "a cat and a dog", "the end", "is it so?"):
        ids = t.encode(text).ids
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0]
        classes.append({"text": text, "ids": ids, "label": names[int(logits.argmax())], "logits": rounded(logits.tolist()),
                        "probs": rounded(torch.softmax(logits, -1).tolist())})
    save_reference(folder, classes=classes)


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
    "modernbert": make_modernbert,
    "modernbert-pair": lambda f: make_modernbert_pairs(f, "mean", False),
    "modernbert-cls-pair": lambda f: make_modernbert_pairs(f, "cls", True),
    "nomic": make_nomic,
    "gte": make_gte,
    "mpnet": make_mpnet,
    "gemma": make_gemma,
    "pair": lambda f: make_pairs(f, BertForSequenceClassification, bert(32, 4, 64, num_labels=1),
                                 "BertForSequenceClassification", tokenizer(vocabulary())),
    "classes": make_classes,
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
