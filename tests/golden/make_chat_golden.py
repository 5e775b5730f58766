#!/usr/bin/env python3
"""Writes tests/golden/chat_templates.golden.json: what transformers makes of the conversations in chat_cases.py with
the templates in chat/, and of small templates for single constructs. Templates are ours; each has what the ones of its
family need.
  make_chat_golden.py"""
import datetime
import json
import pathlib

from transformers.utils import chat_template_utils

from chat_cases import CASES

HERE = pathlib.Path(__file__).parent
NOW = 1764000000  # 24 November 2025, 16:00 UTC
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

# One construct each.
SMALL = [
    "{{ [1, 2.0, 1e20, 1e-7, true, none, 'a\\'b', \"\\\"\", 'é\\n'] }} {{ (1,) }} {{ {'a': [1, {'b': 'c'}]} }}",
    "{{ [1, 2.5, 'é', {'b': none}] | tojson }} {{ {'b': 1, 'a': [2, {}]} | tojson(indent=2, sort_keys=true) }}",
    "{{ 'é\\u2028\\x01' | tojson }}{{ '世👋' | tojson(ensure_ascii=true) }}{{ [1,2]|tojson(separators=(',', ':')) }}",
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 7.5 % 2 }} {{ 1 + 2 * 3 - -4 }} {{ 'ab' * 3 }}",
    "{{ 'abcdef'[1:4] }} {{ 'abc'[::-1] }} {{ [1,2,3,4][-2:] }} {{ [1,2,3][5:] }} {{ 'héé'[1] }} {{ (1,2,3)[::2] }} {{ 'x'[3] }}",
    "{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' in 'cat' }} {{ 1 not in [1] }} {{ not 1 == 2 }} {{ 1 == 1.0 }} {{ [1] == [1] }}",
    "{{ '' or 'b' }} {{ 0 and x.y }} {{ 'a' if false }} {{ none }} {{ nothing }} {{ nothing.x if false else 2 }}",
    "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% elif i == 4 %}{% break %}{% endif %}{{ i }}{{ loop.index }}{% endfor %}",
    "{% for i in [3,4,5] %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a','b') }} {% endfor %}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}{% for x in [] %}{% else %}none{% endfor %}",
    "{% for x in [1,2,3,4] if x is even %}{{ x }}{{ loop.last }}{% endfor %}",
    "{% for x in [{'v': 1, 'c': [{'v': 2, 'c': []}]}] recursive %}{{ loop.depth }}{{ x.v }}{{ loop(x.c) }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1,2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}",
    "{% set ns = namespace(a=1, b='x') %}{% for i in [1,2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}",
    "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }} {{ m(1, c=5, b=4) }} {{ m(1,2,3,4,z=5) }} {{ m() }}",
    "{% macro box(t) %}[{{ t }}:{{ caller(3) }}]{% endmacro %}{% call(n) box('x') %}n{{ n }}{% endcall %}",
    "{% set x %} a {{ 1 }} {% endset %}[{{ x }}]{% set y | upper | trim %} b {% endset %}[{{ y }}]{% filter replace('a', 'b') %}banana{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}{% set a, b = 1, 2 %}{{ b }}{{ a }}",
    "{% raw %}{{ x }} {% if %}{% endraw %} {%- raw -%}  a  {%- endraw -%}  b",
    "a  {#- c -#}  b {# d #}\nc\n  {# e #}\nd{{ 1 }}\n  {% if true %}\n    x\n  {% endif %}\n  {{- 2 }}\n  {%+ if true %}y{% endif +%}\nz\n",
    "  {% set x = 1 -%}\n  \t a {{ x -}}  \n b\r\nc\r{{ 'd' }}\n\n",
    "{{ ' aXa '.strip() }}|{{ 'aXa'.strip('a') }}|{{ 'a,b,,c'.split(',') }}|{{ ' a b  c '.split() }}|{{ ' a b  c '.split(none, 1) }}|{{ 'a-b-c'.rsplit('-', 1) }}|{{ ' a b '.rsplit(none, 1) }}",
    "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'abc'.find('c') }}{{ 'éa'.find('a') }}{{ 'aXb'.partition('X') }}{{ 'aaa'.replace('a', 'b', 2) }}{{ 'ab'.replace('', '-') }}{{ 'aXbX'.count('X') }}",
    "{{ 'hello world-wide'.title() }}|{{ 'hello (world-wide)' | title }}|{{ 'ÀÉ x'.lower() }}|{{ 'straße'.capitalize() }}|{{ 'x1'.isdigit() }}{{ '12'.isdigit() }}{{ 'aé'.isalpha() }}{{ ' '.isspace() }}{{ 'AB'.isupper() }}",
    "{{ 'a\\nb\\r\\nc'.splitlines() }}{{ '-'.join(['a', 'b']) }}{{ 'prefix'.removeprefix('pre') }}{{ {'a': 1}.get('b', 5) }}{{ {'a': 1}.get('b') }}{{ {'a': 1}.keys() | list }}{{ {'a': 1}.values() | list }}",
    "{{ [1,2,3] | first }}{{ [1,2,3] | last }}{{ [] | first }}{{ 'abc' | length }}{{ {'a': 1} | count }}{{ [3,1,2] | sort }}{{ ['b','A'] | sort }}{{ [1,2] | reverse | list }}{{ 'abc' | reverse }}",
    "{{ [{'n': 'b', 'k': {'z': 1}}, {'n': 'a', 'k': {'z': 2}}] | map(attribute='k.z') | list }}{{ ['a', 'b'] | map('upper') | join('-') }}{{ [1, 2, 3, 4] | select('even') | list }}{{ [1, 2, none, 0] | reject('none') | list }}",
    "{% set l = [{'r': 'x', 'v': 1}, {'r': 'y'}, {'r': 'x', 'v': 3}] %}{{ l | selectattr('r', 'equalto', 'x') | map(attribute='v') | list }}{{ l | rejectattr('v') | list }}{{ l | selectattr('v', 'defined') | list | length }}{{ l | groupby('r') | list | length }}{{ l | sort(attribute='r', reverse=true) | map(attribute='r') | join }}",
    "{{ {'b': 1, 'a': 2} | dictsort }}{{ {'b': 1} | items | list }}{{ [1,1,2] | unique | list }}{{ [1,3,2] | max }}{{ [1,2] | sum }}{{ [[1],[2]] | sum(start=[]) }}{{ '3.7' | float }}{{ '42' | int + 1 }}{{ 'x' | int(7) }}{{ 3.99 | int }}",
    "{{ 2.5 | round }}{{ 2.567 | round(2) }}{{ 7 | round }}{{ 2.1 | round(0, 'ceil') | int }}{{ -3 | abs }}{{ 'a b' | replace(' ', '_') }}{{ nothing | default('d') }}{{ '' | default('e', true) }}{{ none | default('f') }}{{ 5 | string ~ 'x' }}",
    "{{ 'a\\nb\\n\\nc' | indent(2) }}|{{ 'a\\nb' | indent(2, true) }}|{{ '%s-%d-%.2f' | format('a', 3, 1.5) }}|{{ '%s!' % 'x' }}|{{ [1,2,3] | batch(2) | list }}|{{ 'X' | lower }}|{{ ' x ' | trim }}|{{ 'xax' | trim('x') }}",
    "{{ x is undefined }}{{ 1 is number }}{{ 'a' is string }}{{ [] is iterable }}{{ {} is mapping }}{{ [] is sequence }}{{ true is boolean }}{{ 1.5 is float }}{{ true is integer }}{{ 4 is divisibleby 2 }}{{ none is none }}{{ 1 is odd }}{{ 'a' is in ['a'] }}{{ 1 is not string }}{{ raise_exception is callable }}{{ 2 is eq 2 }}{{ 'a' is sameas 'a' }}",
    "{{ 'x' if [] | selectattr('a') else 'y' }}{{ 'x' if [] | map('upper') | list else 'y' }}{{ dict(a=1, b=2) }}{{ dict({'a': 1}, c=3) }}{{ range(2, 8, 3) | list }}{{ range(3)[-1] }}",
    "{{ {'items': 1}['items'] }}{{ {'a': {'b': [10, 20]}}.a.b.1 }}{{ {'a': 1}['a'] }}{{ 'ab'['upper']() }}{{ messages | length }}{{ tools is none }}{{ documents is none }}",
    "{{ 'a' 'b' ~ 1 ~ none ~ true }}{{ '\\t\\x41\\u00e9\\101\\q' }}{{ 1_000 }}{{ 1.5e3 }}{{ \"it's\" ~ 'say \"x\"' }}{{ {'k': \"it's\", 'd': 'a\"b\\'c'} }}",
    "{% generation %}a{% endgeneration %}b{% for i in [1,2] %}-{% generation %}{{ i }}é\n{% endgeneration %}{% endfor %}{% set g = 1 %}{% generation %}{% set g = 2 %}{{ g }}{% endgeneration %}{{ g }}",
    # Errors.
    "{{ nothing.x }}", "{{ nothing() }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ [] | nofilter }}", "{{ 1 / 0 }}",
    "{{ raise_exception('no') }}", "{% for x in none %}{% endfor %}", "{% set x.y = 1 %}",
    "{{ undefined_one | tojson }}", "{% set a, b = [1] %}", "{% set ns = namespace(_a=1) %}", "{{ 1 < 'a' }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ range(100000000) }}", "{% if %}", "{{ 'a }}", "{% endif %}",
    "{% for x in y %}", "{{ a b }}", "{% break %}", "{{ x is nosuch }}", "{{ {'a': 1}.update({}) }}", "{{ ) }}", "{# x",
]


def fixed_time():
    class Fixed(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None)

    chat_template_utils.datetime = Fixed


def rendered(template, case, marks=False):
    """The text, or None where transformers refuses; with marks also what generation blocks hold, in characters."""
    kwargs = {**TOKENS, **case.get("variables", {})}
    try:
        texts, spans = chat_template_utils.render_jinja_template(
            [json.loads(json.dumps(case["messages"]))], tools=case.get("tools"), chat_template=template,
            add_generation_prompt=case.get("add_generation_prompt", False), return_assistant_tokens_mask=marks, **kwargs)
        return (texts[0], spans[0]) if marks else texts[0]
    except Exception:  # whatever it is: the template, the conversation or Python refuses
        return None


def main():
    fixed_time()
    families = {}
    for file in sorted((HERE / "chat").glob("*.jinja")):
        template = file.read_text(encoding="utf-8")
        families[file.stem] = [rendered(template, case) for case in CASES]
        refused = families[file.stem].count(None)
        print(f"{file.stem}: {len(CASES)} conversations, {refused} refused")
        assert refused < 12
    small = []
    for template in SMALL:
        result = rendered(template, CASES[3], marks=True)
        small.append({"template": template, "text": result and result[0], "generated": result and result[1]})
    out = {"now": NOW, "tokens": TOKENS, "cases": CASES, "families": families, "small": small}
    path = HERE / "chat_templates.golden.json"
    path.write_text(json.dumps(out, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    print(f"{path.name}: {path.stat().st_size} bytes, {len(small)} small templates")


if __name__ == "__main__":
    main()
