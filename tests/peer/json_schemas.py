#!/usr/bin/env python3
"""Writes 200 JSON Schemas such as programs send with their requests: one file each.

  json_schemas.py --out FOLDER [--count 200] [--seed 1]

Records of many fields as they come from data classes, calls of tools, and forms with bounds, formats and patterns; unions
told apart by a constant, optional values, maps, tuples, references, and recursion.
"""
import argparse
import json
import pathlib
import random

WORDS = """name title summary address city country status kind email phone price quantity total currency date created_at
updated_at owner author tags comments rating score language version path url host port enabled visible count weight height
width color category brand model serial reason notes answer question steps ingredients duration distance speed latitude
longitude temperature humidity account balance iban amount tax discount customer order_id product sku invoice due_date
priority severity message level source target label confidence evidence entities sentiment topic""".split()

FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "hostname", "uri", "duration"]
PATTERNS = ["^[A-Z]{2}[0-9]{2}$", "^#[0-9a-f]{6}$", "^\\d{3}-\\d{4}$", "^[a-z][a-z0-9_]{0,15}$", "^(GET|PUT|POST)$",
            "^v?\\d+\\.\\d+\\.\\d+$", "^\\+?[1-9]\\d{1,14}$", "^[^\\s@]{1,10}$", "^(?:[A-Z]{3}-)?\\d{1,5}$", "^[\\w.-]{3,12}$"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def names(self, least, most):
        return self.r.sample(WORDS, self.r.randint(least, most))

    def string(self):
        r = self.r
        kind = r.randrange(7)
        if kind == 0:
            return {"type": "string", "format": r.choice(FORMATS)}
        if kind == 1:
            return {"type": "string", "pattern": r.choice(PATTERNS)}
        if kind == 2:
            low = r.randint(0, 5)
            return {"type": "string", "minLength": low, "maxLength": low + r.randint(0, 30)}
        if kind in (3, 4):
            return {"type": "string", "enum": r.sample(WORDS, r.randint(2, 8))}
        if kind == 5:
            return {"type": "string", "pattern": "^[a-zA-Z ]+$", "minLength": 2, "maxLength": 20}
        return {"type": "string", "description": "free text"}

    def number(self):
        r = self.r
        kind = r.randrange(6)
        low = r.choice([0, 1, -90, -180, -1000, 18])
        if kind == 0:
            return {"type": "integer", "minimum": low, "maximum": low + r.choice([1, 10, 99, 360, 12345])}
        if kind == 1:
            return {"type": "number", "minimum": low, "maximum": low + r.choice([1, 0.5, 100, 360])}
        if kind == 2:
            return {"type": "number", "exclusiveMinimum": r.choice([0, -1.5, 2.75])}
        if kind == 3:
            return {"type": "integer", "minimum": 0, "multipleOf": r.choice([5, 10, 25, 100])}
        if kind == 4:
            return {"type": "number", "exclusiveMaximum": r.choice([1, 0, 100.25]), "minimum": -5}
        return {"type": r.choice(["integer", "number"])}

    def leaf(self):
        return self.r.choice([self.string, self.string, self.number, self.number, lambda: {"type": "boolean"}])()

    def value(self, depth):
        r = self.r
        kind = r.randrange(12 if depth > 0 else 5)
        if kind < 5:
            return self.leaf()
        if kind == 5:
            return {"type": [self.r.choice(["string", "integer", "number"]), "null"]}
        if kind == 6:
            return {"anyOf": [self.leaf(), {"type": "null"}], "default": None}
        if kind in (7, 8):
            s = {"type": "array", "items": self.value(depth - 1)}
            if r.random() < 0.6:
                s["minItems"] = r.randint(0, 2)
            s["maxItems"] = r.randint(2, 5)
            return s
        if kind == 9:
            return self.record(depth - 1)
        if kind == 10:
            return {"type": "object", "additionalProperties": self.leaf(), "maxProperties": 3}
        return {"type": "array", "prefixItems": [self.leaf() for _ in range(r.randint(1, 3))], "items": False,
                "minItems": 1}

    def record(self, depth, least=2, most=6):
        names = self.names(least, most)
        s = {"type": "object", "properties": {n: self.value(depth) for n in names},
             "required": [n for n in names if self.r.random() < 0.6]}
        if self.r.random() < 0.5:
            s["additionalProperties"] = False
        if self.r.random() < 0.3:
            s["title"] = "A record"
        return s

    def tool(self):
        s = self.record(1)
        return {"type": "object", "properties": {"name": {"const": self.r.choice(WORDS)}, "arguments": s},
                "required": ["name", "arguments"], "additionalProperties": False}

    def union(self):
        kinds = self.names(2, 4)
        branches = []
        for k in kinds:
            s = self.record(1, 1, 3)
            s["properties"] = {"type": {"const": k}, **{n: v for n, v in s["properties"].items() if n != "type"}}
            s["required"] = ["type"] + s["required"]
            branches.append(s)
        return {"type": "object", "properties": {"item": {self.r.choice(["anyOf", "oneOf"]): branches}}, "required": ["item"]}

    def references(self):
        a, b = self.names(2, 2)
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {a: self.record(1), b: self.record(0)},
                "type": "object",
                "properties": {"first": {"$ref": f"#/$defs/{a}"}, "second": {"$ref": f"#/$defs/{b}"},
                               "more": {"type": "array", "items": {"$ref": f"#/$defs/{a}"}, "maxItems": 2}},
                "required": ["first"]}

    def recursive(self):
        r = self.r
        kind = r.randrange(3)
        if kind == 0:  # a tree
            return {"$defs": {"node": {"type": "object", "properties": {
                "label": self.leaf(), "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2}},
                "required": ["label"]}}, "$ref": "#/$defs/node"}
        if kind == 1:  # a list
            return {"type": "object", "properties": {"value": self.leaf(), "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
                    "required": ["value", "next"]}
        return {"$defs": {"expr": {"anyOf": [
            {"type": "number"},
            {"type": "object", "properties": {"op": {"enum": ["+", "*"]}, "left": {"$ref": "#/$defs/expr"},
                                              "right": {"type": "number"}}, "required": ["op", "left", "right"]}]}},
            "type": "object", "properties": {"expression": {"$ref": "#/$defs/expr"}}, "required": ["expression"]}

    def combined(self):
        base = self.record(1)
        more = self.record(0, 1, 3)
        base.pop("additionalProperties", None), more.pop("additionalProperties", None)
        for n in list(more["properties"]):
            if n in base["properties"]:
                del more["properties"][n]
        more["required"] = [n for n in more["required"] if n in more["properties"]]
        return {"$defs": {"base": base}, "allOf": [{"$ref": "#/$defs/base"}, more]}

    def open_map(self):
        s = self.record(1, 1, 3)
        s["additionalProperties"] = self.r.choice([{"type": "integer"}, {"type": "string", "maxLength": 8}])
        s["maxProperties"] = len(s["properties"]) + 2
        return s

    def schema(self):
        return self.r.choice([lambda: self.record(2), lambda: self.record(2), lambda: self.record(1, 6, 12), self.tool, self.union,
                              self.references, self.recursive, self.combined, self.open_map,
                              lambda: {"type": "array", "items": self.record(1), "minItems": 1, "maxItems": 3}])()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    out = pathlib.Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    for i in range(a.count):
        (out / f"{i:03}.json").write_text(json.dumps(Maker(a.seed * 1000 + i).schema(), indent=1))
    print(f"{a.count} schemas in {out}")


if __name__ == "__main__":
    main()
