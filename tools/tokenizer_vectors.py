#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes t/data/tokenizer: small tokenisers and what the reference does with them.

    pip install tokenizers sentencepiece && tools/tokenizer_vectors.py [t/data/tokenizer [NAME...]]

One folder per family, or for each NAME, trained on text made here from a fixed seed: tokenizer.json,
tokenizer_config.json and vectors.json, a list of [text, ids with special tokens, text
decoded from them]. Texts are words, random Unicode, white space, and the added tokens.
"""
import base64
import io
import json
import pathlib
import random
import sys
import tempfile
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

VOCABULARY = 700  # tokens of a byte-level family, 256 of them bytes
CASES = 120

WORDS = """the of and a to in is it was that he she they little big dog cat tree house once
upon time there lived who wanted play happy sad said mother friend it's don't we'll they're
I've he'd I'm THE'S can't 12 345 6789 3.14 2024 1,000 foo_bar camelCase x=y+1; (a) [b] {c}
http://example.org/a?b=c naïve café über señor Ελλάδα Москва привет мир 日本語 東京 中文 文字
한국어 서울 مرحبا שלום हिन्दी ภาษาไทย tiếng Việt ½ ² ٣ ७""".split()

SPECIAL_TEXTS = """'s 'S 'ſ don'T WE'LL e\u0301 \u1100\u1161\u11a8 \ufb01 \u212b \u0130
a\u0301\u0327b q\u0307\u0323 \u200b \u180e \u200d \xad \ufeff \ufffd 👩‍👩‍👧‍👦 🇩🇪 𝔘𝔫𝔦 \U0010fffd""".split()

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def corpus(seed=1):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=12)) for _ in range(400)]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(pre, special, normalizer=None, post=None, ignore_merges=False, added=()):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=special, show_progress=False))
    t.add_tokens(list(added))
    if post:
        t.post_processor = post(t)
    return t


def byte_fallback(prefix_in_normalizer):
    """BPE over characters with a token for every byte, as SentencePiece makes it."""
    alphabet = sorted(set("".join(corpus()) + "▁") - {" "})
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    learner.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=len(alphabet) + 150, initial_alphabet=alphabet, show_progress=False))
    learnt = json.loads(learner.to_str())["model"]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    # A third of the alphabet has no token, so that bytes are needed.
    known = [c for c in learnt["vocab"] if len(c) > 1 or ord(c) < 0x400 or c == "▁"]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" "))
              for m in learnt["merges"]]
    merges = [m for m in merges if all(part in known for part in (*m, "".join(m)))]
    tokens += [c for c in known if c not in tokens]
    t = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges,
                             unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.add_special_tokens([AddedToken(s, normalized=False) for s in ("<unk>", "<s>", "</s>")])
    t.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    if prefix_in_normalizer:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"),
                                             normalizers.Replace(" ", "▁")])
        t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                       decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    else:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(),
                                       decoders.Fuse()])
    return t


def wordpiece():
    """BERT's: text is cleaned, lower-cased, without accents, cut at punctuation."""
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=40))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(corpus(), trainers.WordPieceTrainer(
        vocab_size=400, special_tokens=special, show_progress=False))
    t.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def replacements():
    """Of a normalisation of our own: NFKC of some characters, white space, and what is dropped."""
    blanks = "\t\n\x0b\r\x85\xa0\u2003\u3000"
    dropped = "\u200b\u200d\xad\ufeff"
    plain = [chr(c) for c in (*range(0xff01, 0xff5f), *range(0xfb00, 0xfb07), *range(0x1d510, 0x1d540))] + list("½²ſÅ")
    composed = ["e\u0301", "a\u0301", "\u1100\u1161", "\u1100\u1161\u11a8"]
    return {**{b: " " for b in blanks}, **{d: "" for d in dropped},
            **{c: unicodedata.normalize("NFKC", c) for c in plain + composed if unicodedata.normalize("NFKC", c) != c}}


def sentencepieces():
    """Pieces with their scores, and the table of that normalisation, by SentencePiece's trainer."""
    import sentencepiece  # t/campaign/outside.py, which imports this file, does without
    from sentencepiece import sentencepiece_model_pb2
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        hexadecimal = lambda text: " ".join(f"{ord(c):X}" for c in text)
        rules.writelines(f"{hexadecimal(a)}\t{hexadecimal(b)}\n" for a, b in replacements().items())
        rules.flush()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus()), model_writer=model, model_type="unigram", vocab_size=180,
            character_coverage=0.98, normalization_rule_tsv=rules.name, num_threads=1, minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    return [(p.piece, p.score) for p in proto.pieces[3:]], proto.normalizer_spec.precompiled_charsmap


def unigram(by_bytes):
    """XLM-RoBERTa's; or one whose unknown characters are bytes, and whose texts are not cut."""
    pieces, table = sentencepieces()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    if by_bytes:
        pieces = [(f"<0x{b:02X}>", -30.0) for b in range(256)] + pieces
    t = Tokenizer(models.Unigram([(s, 0.0) for s in special] + pieces, 3, by_bytes))
    t.add_special_tokens([AddedToken(s, normalized=False) for s in special])
    table = normalizers.Precompiled(table)
    if by_bytes:
        t.normalizer = normalizers.Sequence([table, normalizers.Replace(Regex(" {2,}"), " ")])
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    else:
        t.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
        t.normalizer = table
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
        t.decoder = decoders.Metaspace()
        t.post_processor = processors.TemplateProcessing(
            "<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)])
    return t


def families():
    """name -> (tokeniser, tokenizer_config.json)"""
    end = AddedToken("<|endoftext|>", normalized=False)
    gpt2 = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), [end])
    yield "gpt2", gpt2, {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}

    begin = "<|begin_of_text|>"
    llama3 = byte_level(
        pre_tokenizers.Sequence([split(LLAMA3),
                                 pre_tokenizers.ByteLevel(False, use_regex=False)]),
        [begin, "<|end_of_text|>", "<|eot_id|>"], ignore_merges=True,
        post=lambda t: processors.Sequence([
            processors.ByteLevel(),
            processors.TemplateProcessing(begin + " $A", special_tokens=[(begin, 0)])]))
    yield "llama3", llama3, {"bos_token": begin, "eos_token": "<|eot_id|>"}

    neox = byte_level(
        pre_tokenizers.ByteLevel(add_prefix_space=False), [end, "<|padding|>"],
        normalizer=normalizers.NFC(),
        added=[AddedToken(" " * n, normalized=True) for n in range(6, 1, -1)])
    yield "neox", neox, {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}

    qwen = byte_level(
        pre_tokenizers.Sequence([split(QWEN),
                                 pre_tokenizers.ByteLevel(False, use_regex=False)]),
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], normalizer=normalizers.NFC())
    yield "qwen", qwen, {"bos_token": None, "eos_token": {"content": "<|im_end|>"},
                         "add_bos_token": False}

    falcon = byte_level(
        pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"),
                                 pre_tokenizers.ByteLevel(False),
                                 pre_tokenizers.Digits(individual_digits=False),
                                 split("[0-9][0-9][0-9]")]), [end],
        added=[AddedToken("<fill>", lstrip=True, rstrip=True, normalized=False),
               AddedToken("<left>", lstrip=True, normalized=False),
               AddedToken("<right>", rstrip=True, normalized=True)])
    yield "falcon", falcon, {"eos_token": "<|endoftext|>"}

    other = byte_level(
        pre_tokenizers.Sequence([split(GPT4O, "removed", True),
                                 pre_tokenizers.Digits(individual_digits=True),
                                 split(r"[\u4e00-\u9fff]+", "merged_with_next"),
                                 split(r"\w+\W", "merged_with_previous"),
                                 pre_tokenizers.ByteLevel(True, use_regex=False)]),
        ["<s>"], normalizer=normalizers.Sequence([normalizers.NFKC(),
                                                  normalizers.Lowercase(),
                                                  normalizers.Strip(),
                                                  normalizers.Replace(Regex(" {2,}"), " ")]),
        added=[AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False),
               AddedToken("once", single_word=True, normalized=False),
               AddedToken("DOG", normalized=True)])
    yield "mixed", other, {"bos_token": "<s>"}

    yield "llama2", byte_fallback(True), {"bos_token": "<s>", "eos_token": "</s>",
                                          "add_bos_token": True, "add_eos_token": False}
    yield "metaspace", byte_fallback(False), {"bos_token": "<s>", "eos_token": "</s>"}
    yield "bert", wordpiece(), {"cls_token": "[CLS]", "sep_token": "[SEP]"}
    yield "unigram", unigram(False), {"bos_token": "<s>", "eos_token": "</s>"}
    yield "unigram-bytes", unigram(True), {"bos_token": "<s>", "eos_token": "</s>"}


def characters():
    return [c for c in map(chr, range(1, 0x20000))
            if unicodedata.category(c) not in ("Cn", "Cs", "Co")]


def text(draw, alphabet, added):
    kind = draw.random()
    if kind < 0.2:
        return "".join(draw.choices(alphabet, k=draw.randint(1, 14)))
    if kind < 0.3:
        return "".join(draw.choices(" \t\n\r\x0b\x85\xa0\u2003\u3000a1.", k=draw.randint(1, 16)))
    parts = draw.choices(WORDS + SPECIAL_TEXTS + added, k=draw.randint(1, 9))
    return "".join(p + draw.choice([" ", " ", "", "  ", "\n"]) for p in parts)


def cases(tokenizer, seed):
    draw = random.Random(seed)
    alphabet = characters()
    added = [t.content for t in tokenizer.get_added_tokens_decoder().values()]
    texts = ["", " ", "a", " a", "a ", "\n", "Once upon a time"]
    while len(texts) < CASES:
        candidate = text(draw, alphabet, added)
        # The reference normalises by tables older than today's Unicode: leave out what
        # it sees differently.
        if tokenizers.normalizers.NFKC().normalize_str(candidate) == \
                unicodedata.normalize("NFKC", candidate):
            texts.append(candidate)
    for each in texts:
        ids = tokenizer.encode(each).ids
        yield [each, ids, tokenizer.decode(ids, skip_special_tokens=False)]


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "t/data/tokenizer")
    for seed, (name, tokenizer, config) in enumerate(families()):
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        full = json.loads(tokenizer.to_str())
        (folder / "tokenizer.json").write_text(json.dumps(full, ensure_ascii=False) + "\n")
        (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
        rows = (json.dumps(c, ensure_ascii=False) for c in cases(tokenizer, seed))
        (folder / "vectors.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")
    print(f"{out}: made with tokenizers {tokenizers.__version__}")


if __name__ == "__main__":
    main()
