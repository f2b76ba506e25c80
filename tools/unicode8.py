#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which characters Hugging Face's BERT sees otherwise than today's Unicode: writes
text/base/unicode8.h.

    pip install tokenizers unicodedata2
    tools/unicode8.py [FILE]

The reference's BertNormalizer and BertPreTokenizer ask the crate unicode_categories 0.1.1,
whose tables are those of Unicode 8.0. It is asked about every code point, and compared with
the newest Unicode that unicodedata2 has.
"""
import sys

import tokenizers
import unicodedata2 as unicode
from tokenizers import normalizers, pre_tokenizers

HEAD = '''/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Characters without a category in BERT's reference implementation: its tables (the crate
 * unicode_categories 0.1.1) are those of Unicode 8.0, and these are the nonspacing marks,
 * punctuation and format characters that Unicode has made since, up to %s. An
 * unassigned character has no category there either.
 *
 * Made by tools/unicode8.py (tokenizers %s), which asks it about every character.
 */
#ifndef LLS_TEXT_UNICODE8_H
#define LLS_TEXT_UNICODE8_H

/* clang-format off */
/* Each is a list of range(first, last), hexadecimal without 0x. */
'''

CLEAN = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
STRIP = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
SPLIT = pre_tokenizers.BertPreTokenizer()


def is_gone(normalizer, character):
    return normalizer.normalize_str(f"a{character}b") == "ab"


def is_apart(character):
    return [piece for piece, _ in SPLIT.pre_tokenize_str(f"a{character}b")] == ["a", character, "b"]


# name, what it is, how the reference shows it, which categories have it today
CLASSES = [
    ("MARKS", "Nonspacing marks.", lambda c: is_gone(STRIP, c), ("Mn",)),
    ("PUNCTUATION", "Punctuation.", is_apart, ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po")),
    ("FORMAT", "Format characters.", lambda c: is_gone(CLEAN, c), ("Cf",)),
]


def characters():
    for codepoint in range(0x80, 0x110000):
        # U+FFFD is taken away whatever it is
        if not 0xd800 <= codepoint < 0xe000 and codepoint != 0xfffd:
            yield chr(codepoint)


def ranges(codepoints):
    made = []
    for codepoint in codepoints:
        if made and made[-1][1] == codepoint - 1:
            made[-1][1] = codepoint
        else:
            made.append([codepoint, codepoint])
    return made


def write(out, name, what, codepoints):
    items = [f"range({first:x}, {last:x})" for first, last in ranges(codepoints)]
    lines = []
    for item in items:
        if lines and len(lines[-1]) + len(item) < 82:
            lines[-1] += " " + item
        else:
            lines.append("  " + item)
    body = " \\\n".join(line.ljust(86) for line in [f"#define LLS_{name}(range)"] + lines)
    out.write(f"/* {what} */\n{body.rstrip()}\n\n")


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "text/base/unicode8.h"
    with open(path, "w") as out:
        out.write(HEAD % (unicode.unidata_version, tokenizers.__version__))
        for name, what, has, categories in CLASSES:
            newer, older = [], []
            for character in characters():
                today = unicode.category(character) in categories
                # what decomposes is not seen by itself
                if today != has(character) and unicode.normalize("NFD", character) == character:
                    if today:
                        newer.append(ord(character))
                    elif unicode.category(character) not in ("Cc", "Co"):  # which go as FORMAT does
                        older.append(ord(character))
            write(out, f"{name}_SINCE_8", f"{what[:-1]} since then.", newer)
            if older:
                write(out, f"{name}_OF_8", f"{what[:-1]} then, something else now.", older)
        out.write("/* clang-format on */\n#endif\n")


main()
