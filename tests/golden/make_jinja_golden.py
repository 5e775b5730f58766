#!/usr/bin/env python3
"""Writes tests/golden/jinja.golden.json: what Jinja, as transformers sets it up, makes of jinja_cases.py.
  make_jinja_golden.py"""
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from jinja_cases import DATA, EXPRESSIONS, STATEMENTS

HERE = pathlib.Path(__file__).parent


def environment():
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    return env


def rendered(env, template):
    try:
        text = env.from_string(template).render(**json.loads(json.dumps(DATA)))
        return None if " object at 0x" in text or "<built-in" in text else text
    except Exception:  # whatever it is: Jinja or Python refuses
        return None


def main():
    env = environment()
    templates = ["{{ " + e + " }}" for e in EXPRESSIONS] + STATEMENTS
    cases = [[t, rendered(env, t)] for t in templates]
    out = {"data": DATA, "cases": cases}
    (HERE / "jinja.golden.json").write_text(json.dumps(out, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    print(f"{len(cases)} templates, {sum(text is None for _, text in cases)} refused")


if __name__ == "__main__":
    main()
