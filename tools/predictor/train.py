# SPDX-License-Identifier: Apache-2.0
"""Trains a small encoder for predictor `retrieval`, and the length model that is its fallback, from (text, length) pairs.

    VENV/bin/python tools/predictor/train.py --corpus lengths.jsonl --out share/demo-model/encoder      some minutes
    VENV/bin/python tools/predictor/train.py --corpus lengths.jsonl --encoder FOLDER --out length.mlp   length model only
    VENV/bin/python tools/predictor/train.py --corpus lengths.jsonl --encoder FOLDER --tune --out NEW   both, from FOLDER

The corpus is what lengths.py writes. The encoder is a BERT (--layers, --hidden) with a WordPiece vocabulary of the
corpus, trained from nothing on two things at once: a perceptron on its vector tells the logarithm of the length, and
so do the other prompts of a batch, weighted by a softmax of their cosines - which is what looking up neighbours does.
With --encoder that folder is used as it is, or, with --tune, trained on for the same two things: three epochs at a
hundredth of the length model's rate, which leave a general encoder's knowledge of words in place. A part of the corpus
(--held-out) is for measuring only: the deviation of the length model that is written into its file, and the figures
printed at the end.
"""
import argparse
import json
import math
import os
import random
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel

MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEMPERATURE = 0.05  # of the softmax over cosines


def train_tokenizer(texts, size):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=size, special_tokens=MARKS, show_progress=False))
    t.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


class Encoder(torch.nn.Module):

    def __init__(self, bert, hidden):
        super().__init__()
        self.bert = bert
        dims = bert.config.hidden_size
        self.length = torch.nn.Sequential(torch.nn.Linear(dims, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 1))

    def vectors(self, ids):
        n = max(map(len, ids))
        mask = torch.tensor([[1] * len(i) + [0] * (n - len(i)) for i in ids])
        rows = self.bert(torch.tensor([i + [0] * (n - len(i)) for i in ids]), attention_mask=mask).last_hidden_state
        v = (rows * mask[..., None]).sum(1)
        return torch.nn.functional.normalize(v, dim=1)


def neighbours(v, y, own):
    """Each one's log length told by the others."""
    scores = (v @ own[0].T) / TEMPERATURE
    if own[0] is v:
        scores = scores.masked_fill(torch.eye(len(v), dtype=torch.bool), -1e9)
    return scores.softmax(1) @ own[1]


def by_length(order, ids, batch):
    """Batches of prompts about as long as each other: less padding."""
    some = 8 * batch
    return [r for at in range(0, len(order), some) for r in sorted(order[at:at + some], key=lambda r: len(ids[r]))]


def train(model, ids, y, a):
    epochs, batch = a.epochs, a.batch
    rates = [{"params": model.bert.parameters(), "lr": a.rate},
             {"params": model.length.parameters(), "lr": 100 * a.rate if a.tune else a.rate}]
    optimizer = torch.optim.AdamW(rates, weight_decay=0.01)
    steps = epochs * (len(ids) // batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / min(100, steps / 10), 1) * 0.5 * (1 + math.cos(math.pi * min(s / steps, 1))))
    for epoch in range(epochs):
        order, total = torch.randperm(len(ids)).tolist(), 0
        if a.tune:
            order = by_length(order, ids, batch)
        model.train()
        for at in range(0, len(order) - batch + 1, batch):
            rows = order[at:at + batch]
            v, want = model.vectors([ids[r] for r in rows]), y[rows]
            loss = ((model.length(v)[:, 0] - want)**2).mean() + ((neighbours(v, want, (v, want)) - want)**2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1}/{epochs}  loss {total / (len(order) // batch):.4f}", flush=True)


def train_head(model, v, y, held_v, held_y, epochs):
    """Keeps the state that is best on what is held out: a small corpus is soon learned by heart."""
    optimizer = torch.optim.AdamW(model.length.parameters(), lr=1e-3, weight_decay=0.1)
    best, kept = math.inf, None
    for _ in range(epochs):
        for rows in torch.randperm(len(y)).split(64):
            loss = ((model.length(v[rows])[:, 0] - y[rows])**2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            now = ((model.length(held_v)[:, 0] - held_y)**2).mean().item()
        if now < best:
            best, kept = now, {k: p.clone() for k, p in model.length.state_dict().items()}
    model.length.load_state_dict(kept)


def all_vectors(model, ids):
    model.eval()
    with torch.no_grad():
        return torch.cat([model.vectors(ids[at:at + 64]) for at in range(0, len(ids), 64)])


def report(model, v, y, held_v, held_y):
    def line(name, guess):
        error = ((guess.exp() - held_y.exp()).abs() / held_y.exp()).mean()
        print(f"{name:24} deviation of log length {(guess - held_y).std():.3f}  mean relative error {error:.3f}")

    with torch.no_grad():
        guess = model.length(held_v)[:, 0]
        line("mean of all", y.mean().expand_as(held_y))
        line("length model", guess)
        best = (held_v @ v.T).topk(5, dim=1)
        near = (best.values * y.exp()[best.indices]).sum(1) / best.values.sum(1)
        line("5 neighbours", near.log())
        print(f"nearest cosine: median {best.values[:, 0].median():.3f}, tenth {best.values[:, 0].quantile(0.1):.3f}; "
              f"of two at random: {(held_v @ v.T).median():.3f}")
        return (guess - held_y).std().item()


def save_length(path, model, deviation):
    first, last = model.length[0], model.length[2]
    with open(path, "wb") as f:
        f.write(f"llmserve-length 1 {first.in_features} {first.out_features} {deviation:.4f}\n".encode())
        for p in (first.weight, first.bias, last.weight, last.bias):
            f.write(p.detach().float().numpy().astype("<f4").tobytes())


def save_encoder(folder, model, tokenizer, max_tokens):
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    c = model.bert.config
    config = {"architectures": ["BertModel"], "model_type": "bert", "vocab_size": c.vocab_size,
              "hidden_size": c.hidden_size, "num_hidden_layers": c.num_hidden_layers,
              "num_attention_heads": c.num_attention_heads, "intermediate_size": c.intermediate_size,
              "hidden_act": "gelu", "max_position_embeddings": c.max_position_embeddings,
              "type_vocab_size": c.type_vocab_size, "layer_norm_eps": c.layer_norm_eps, "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "1_Pooling/config.json").write_text(
        json.dumps({"word_embedding_dimension": c.hidden_size, "pooling_mode_mean_tokens": True}, indent=1) + "\n")
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_tokens}) + "\n")
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    save_file({k: v.contiguous() for k, v in model.bert.state_dict().items() if v.is_floating_point()},
              folder / "model.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for name, kind, value in (("layers", int, 3), ("hidden", int, 96), ("heads", int, 4), ("vocab", int, 1500),
                              ("max-tokens", int, 128), ("epochs", int, None), ("batch", int, None), ("rate", float, None),
                              ("width", int, 64), ("held-out", float, 0.15), ("seed", int, 1)):
        parser.add_argument("--" + name, type=kind, default=value)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--encoder", type=Path, help="use this one, train the length model only")
    parser.add_argument("--tune", action="store_true", help="train that encoder too")
    parser.add_argument("--out", type=Path, required=True)
    a = parser.parse_args()
    for name, value in zip(("epochs", "batch", "rate"), (3, 32, 6e-5) if a.tune else (25, 64, 1e-3)):
        setattr(a, name, getattr(a, name) or value)
    torch.manual_seed(a.seed)
    rows = [json.loads(line) for line in open(a.corpus)]
    random.Random(a.seed).shuffle(rows)
    split = int(len(rows) * a.held_out)
    y = torch.tensor([math.log(max(r["length"], 1)) for r in rows])
    if a.encoder:
        tokenizer = Tokenizer.from_file(str(a.encoder / "tokenizer.json"))
        bert = BertModel.from_pretrained(a.encoder, add_pooling_layer=False)
    else:
        tokenizer = train_tokenizer([r["text"] for r in rows[split:]], a.vocab)
        bert = BertModel(BertConfig(vocab_size=tokenizer.get_vocab_size(), hidden_size=a.hidden, type_vocab_size=1,
                                    num_hidden_layers=a.layers, num_attention_heads=a.heads,
                                    intermediate_size=4 * a.hidden, max_position_embeddings=a.max_tokens),
                         add_pooling_layer=False)
    tokenizer.no_padding()
    tokenizer.enable_truncation(a.max_tokens)
    ids = [tokenizer.encode(r["text"]).ids for r in rows]
    model = Encoder(bert, a.width)
    as_it_is = a.encoder and not a.tune
    torch.nn.init.constant_(model.length[2].bias, y[split:].mean())
    if not as_it_is:
        train(model, ids[split:], y[split:], a)
    v = all_vectors(model, ids)
    if as_it_is:
        train_head(model, v[split:], y[split:], v[:split], y[:split], a.epochs)
    deviation = report(model, v[split:], y[split:], v[:split], y[:split])
    if as_it_is:
        save_length(a.out, model, deviation)
        return
    tokenizer.no_truncation()
    save_encoder(a.out, model, tokenizer, a.max_tokens)
    save_length(a.out / "length.mlp", model, deviation)
    print(f"{sum(p.numel() for p in bert.parameters())} parameters in {a.out}")


if __name__ == "__main__":
    main()
