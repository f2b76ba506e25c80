# SPDX-License-Identifier: Apache-2.0
"""encoders.py SOURCE FOLDER: the tree's two small encoders with room for 2048 tokens, for llama.cpp's tests."""
import json
import os
import shutil
import sys

ROOM = 2048


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8:8 + length]), data[8 + length:]


def longer(name, entry, data):
    """Repeats the rows of a table of positions until there are ROOM."""
    begin, end = entry["data_offsets"]
    part, shape = data[begin:end], entry["shape"]
    if "position_embeddings" not in name:
        return part, shape
    row = len(part) // shape[0]
    return (part * (ROOM // shape[0] + 1))[:row * ROOM], [ROOM, *shape[1:]]


def save(path, header, data):
    out, blob = {}, b""
    for name, entry in header.items():
        if name == "__metadata__":
            out[name] = entry
            continue
        part, shape = longer(name, entry, data)
        out[name] = {"dtype": entry["dtype"], "shape": shape, "data_offsets": [len(blob), len(blob) + len(part)]}
        blob += part
    text = json.dumps(out).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + blob)


def change(path, **members):
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    found.update({name: value for name, value in members.items() if name in found})
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file)


def main():
    source, folder = sys.argv[1:]
    for name in ("mean", "pair"):
        made = f"{folder}/encoder-{name}"
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(f"{source}/t/data/encoder/{name}", made)
        save(f"{made}/model.safetensors", *load(f"{made}/model.safetensors"))
        change(f"{made}/config.json", max_position_embeddings=ROOM)
        change(f"{made}/tokenizer_config.json", model_max_length=ROOM)
        change(f"{made}/sentence_bert_config.json", max_seq_length=ROOM)


main()
