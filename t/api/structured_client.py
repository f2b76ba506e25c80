# SPDX-License-Identifier: Apache-2.0
"""Answers at temperature 1 beside the reference validator: structured_client.py URL [COUNT]

Asks for COUNT answers, to each of the schemas in turn, and prints TAP: that jsonschema, with
its formats, finds all of them valid. Answers that max_tokens cut short are not counted.
"""
import concurrent.futures
import json
import sys
import urllib.request

import jsonschema

NODE = {
    "type": "object",
    "properties": {"value": {"type": "integer", "minimum": -5, "maximum": 1200},
                   "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["value", "next"], "additionalProperties": False,
}
SHORT = {"type": "string", "maxLength": 5}


def record(properties, **more):
    return {"type": "object", "properties": properties, "required": list(properties),
            "additionalProperties": False, **more}


SCHEMAS = {
    "bounds": record({"a": {"type": "integer", "minimum": 0, "maximum": 120},
                      "b": {"type": "number", "minimum": -1.5, "exclusiveMaximum": 2.25},
                      "c": {"type": "integer", "multipleOf": 5, "minimum": -50, "maximum": 50}}),
    "strings": record({"a": {"type": "string", "minLength": 2, "maxLength": 6},
                       "b": {"type": "string", "pattern": "^[a-z]+[0-9]$", "maxLength": 8},
                       "c": {"type": "string", "pattern": "^[A-F]{2,3}(-x|_y)?$"}}),
    "formats": record({"a": {"type": "string", "format": "date"},
                       "b": {"type": "string", "format": "ipv4"},
                       "c": {"type": "string", "format": "uuid"}}),
    "arrays": {"type": "array", "items": {"type": ["integer", "null"], "minimum": 1, "maximum": 99},
               "minItems": 2, "maxItems": 5},
    "tuple": {"type": "array", "prefixItems": [{"type": "boolean"}, {"enum": ["x", "y\"", 3.5]}],
              "items": False, "minItems": 2},
    "optional": {"type": "object", "properties": {k: {"type": "boolean"} for k in "abcde"},
                 "additionalProperties": False, "minProperties": 1},
    "names": {"type": "object", "patternProperties": {"^x_[a-z]{1,3}$": SHORT},
              "additionalProperties": False, "minProperties": 1, "maxProperties": 3},
    "other": {"type": "object", "properties": {"id": {"const": 7}}, "required": ["id"],
              "additionalProperties": {"type": "boolean"}, "maxProperties": 3},
    "one_of": {"oneOf": [record({"kind": {"const": "circle"}, "r": {"type": "integer", "minimum": 0, "maximum": 9}}),
                         record({"kind": {"const": "box"}, "w": {"enum": [1, 2]}, "h": {"enum": [3, 4]}})]},
    "all_of": {"allOf": [{"type": "object", "properties": {"a": {"minimum": 3}}, "required": ["a"]},
                         {"properties": {"a": {"type": "integer", "maximum": 8}, "b": SHORT}}],
               "unevaluatedProperties": False},
    "overlapping": {"oneOf": [{"enum": [2, "x", 7]}, {"type": "integer", "minimum": -9, "maximum": 9},
                              {"type": "string", "maxLength": 1}]},
    "conditional": record({"kind": {"enum": ["a", "b"]}, "v": {"type": ["integer", "null"]}},
                          **{"if": {"properties": {"kind": {"const": "a"}}},
                             "then": {"properties": {"v": {"type": "null"}}},
                             "else": {"properties": {"v": {"minimum": 5, "maximum": 77}}}}),
    "held": record({"a": {"type": "string", "format": "uri", "minLength": 1, "maxLength": 30},
                    "b": {"type": "string", "format": "email", "maxLength": 60},
                    "c": {"type": "string", "pattern": "^(ab|c)x{0,3}(de?f)*$", "minLength": 3, "maxLength": 5}}),
    "unique": {"type": "array", "items": {"enum": ["a", "b", 3, None]}, "uniqueItems": True, "minItems": 2},
    "named": {"type": "object", "propertyNames": {"pattern": "^[a-c]", "maxLength": 3}, "maxProperties": 3,
              "additionalProperties": {"type": "boolean"}},
    "multiples": record({"a": {"type": "integer", "multipleOf": 12, "minimum": -30},
                         "b": {"type": "number", "multipleOf": 0.25, "exclusiveMinimum": -7.5, "maximum": 99999999.75}}),
    "counted": {"type": "object", "properties": {k: {"type": "boolean"} for k in "abcde"}, "required": ["c"],
                "additionalProperties": False, "minProperties": 2, "maxProperties": 3},
    "recursive": {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
}


def ask(url, name, seed):
    body = {"prompt": "Once upon a time", "max_tokens": 250, "temperature": 1, "seed": seed,
            "guided_json": SCHEMAS[name]}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                     {"content-type": "application/json"})
    choice = json.load(urllib.request.urlopen(request, timeout=120))["choices"][0]
    return name, choice["finish_reason"], choice["text"]


def main():
    url, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 110
    names = sorted(SCHEMAS)
    formats = jsonschema.Draft202012Validator.FORMAT_CHECKER
    whole = {name: 0 for name in names}
    wrong = {name: [] for name in names}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(ask, url, names[i % len(names)], i) for i in range(count)]
        for job in jobs:
            name, reason, text = job.result()
            if reason == "length":
                continue
            whole[name] += 1
            try:
                jsonschema.Draft202012Validator(SCHEMAS[name], format_checker=formats).validate(json.loads(text))
            except (ValueError, jsonschema.ValidationError) as error:
                wrong[name].append((text, str(error).splitlines()[0]))
    for number, name in enumerate(names, 1):
        good = whole[name] > 0 and not wrong[name]
        print("%sok %d - %s: %d answers are valid" % ("" if good else "not ", number, name, whole[name]))
        for text, error in wrong[name][:3]:
            print("# %s: %s" % (text, error))
    print("1..%d" % len(names))
    return any(wrong.values())


sys.exit(main())
