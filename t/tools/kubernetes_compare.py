#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# kubernetes_compare.py ONE TWO: what two files of manifests have different, a line for each; kustomize's hashes of names,
# and checksums of configurations in annotations, which Helm has in their place, count as equal.
import re
import sys

import yaml


def plain(text):
    return re.sub(r"^(llmserve(?:-picker)?)-[0-9a-z]{10}$", r"\1", text) if isinstance(text, str) else text


def read(path):
    with open(path) as file:
        objects = [one for one in yaml.safe_load_all(file) if one]
    return {(one["kind"], plain(one["metadata"]["name"])): one for one in objects}


def differences(one, two, where):
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(set(one) | set(two), key=str):
            if key == "annotations" and key not in two and list(one[key]) == ["checksum/config"]:
                continue
            yield from differences(one.get(key), two.get(key), f"{where}.{key}")
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for i, (left, right) in enumerate(zip(one, two)):
            yield from differences(left, right, f"{where}[{i}]")
    elif plain(one) != plain(two):
        yield f"{where}: {str(one)[:80]!r} != {str(two)[:80]!r}"


for line in differences(read(sys.argv[1]), read(sys.argv[2]), ""):
    print(line)
