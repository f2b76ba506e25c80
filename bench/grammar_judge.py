#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges the texts of bench/grammar_walks with jsonschema and the formats of draft 2020-12:

    pip install 'jsonschema[format]'
    bench/grammar_walks FILE... | python3 bench/grammar_judge.py

Numbers are decimal, since as a binary number 9.86 is no multiple of 0.01. Prints how many texts are valid, the invalid
texts, and how many schemas the validator cannot read. Exit status 1 if a text is invalid.
"""
import collections
import decimal
import json
import sys
import warnings

import jsonschema

warnings.simplefilter("ignore")
LATEST = jsonschema.Draft202012Validator


def read(text):
    return json.loads(text, parse_float=decimal.Decimal)


def of_decimals(draft):
    """A validator for which 1.0 is an integer, in the drafts which say so."""
    types = draft.TYPE_CHECKER
    return jsonschema.validators.extend(draft, type_checker=types.redefine(
        "integer", lambda _, value: types.is_type(float(value) if isinstance(value, decimal.Decimal) else value, "integer")))


def validator(file):
    with open(file, encoding="utf-8") as opened:
        schema = read(opened.read())["schema"]
    draft = of_decimals(jsonschema.validators.validator_for(schema, LATEST))
    return draft(schema, format_checker=LATEST.FORMAT_CHECKER)


def main():
    validators, judged, unjudged, wrong = {}, 0, collections.Counter(), []
    for line in map(json.loads, sys.stdin):
        file = line["file"]
        if file not in validators:
            validators[file] = validator(file)
        try:
            error = jsonschema.exceptions.best_match(validators[file].iter_errors(read(line["text"])))
        except ValueError as not_json:
            error = not_json
        except Exception:  # the schema's fault: a $ref to another place, or an expression which re cannot read
            unjudged[file] += 1
            continue
        judged += 1
        if error is not None:
            wrong.append((file, line["text"], str(error).splitlines()[0]))
    print(f"{judged} texts of {len(validators)} schemas: {judged - len(wrong)} are valid, {len(wrong)} are not; "
          f"{sum(unjudged.values())} of {len(unjudged)} schemas could not be judged")
    for file, text, error in wrong:
        print(f"{file}: {text[:300]}: {error[:200]}")
    return bool(wrong)


sys.exit(main())
