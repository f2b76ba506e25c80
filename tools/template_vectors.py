#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes t/data/template/vectors.json: chat templates and what Jinja renders from them.

    pip install jinja2 && tools/template_vectors.py [t/data/template/vectors.json]

Each case is {"source", "messages", "add_generation_prompt"} and either "text" or
"rejected": true where Jinja raises an error. Jinja is set up as chat templates expect:
trim_blocks, lstrip_blocks, loop controls, raise_exception and a plain tojson.
"""
import json
import pathlib
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

BOS, EOS = "<s>", "</s>"

CHATML = """{% for m in messages %}
{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\\n' }}
{% endif %}
"""

LLAMA2 = """{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}
{% set system = '<<SYS>>\\n' + messages[0].content | trim + '\\n<</SYS>>\\n\\n' %}
{% else %}{% set rest = messages %}{% set system = '' %}{% endif %}
{% for m in rest %}
{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('roles must alternate user/assistant/user/assistant/...') }}
{% endif %}
{% if loop.index0 == 0 %}{% set content = system ~ m.content %}
{% else %}{% set content = m.content %}{% endif %}
{% if m.role == 'user' %}
{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
{% elif m.role == 'assistant' %}
{{ ' ' + content | trim + ' ' + eos_token }}
{% endif %}
{% endfor %}
"""

LLAMA3 = """{%- for m in messages %}
    {%- set block = '<|start_header_id|>' ~ m['role'] ~ '<|end_header_id|>\\n\\n' ~
        m['content'] | trim ~ '<|eot_id|>' %}
    {%- if loop.first %}
        {%- set block = bos_token ~ block %}
    {%- endif %}
    {{- block }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

ZEPHYR = """{% for m in messages %}
{% if m['role'] in ['system', 'user', 'assistant'] %}
{{ '<|' + m['role'] + '|>\\n' + m['content'] + eos_token }}
{% else %}
{{ raise_exception('Only the roles system, user and assistant: ' ~ m.role) }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

MISTRAL = """{%- set state = namespace(users=0) -%}
{{- bos_token -}}
{%- for m in messages -%}
  {%- if m.role == 'user' -%}
    {%- set state.users = state.users + 1 -%}
    [INST] {{ m.content }} [/INST]
  {%- elif m.role == 'assistant' and state.users > 0 -%}
    {{- ' ' ~ m.content | trim ~ eos_token -}}
  {%- else -%}
    {{- raise_exception('a conversation begins with the user') -}}
  {%- endif -%}
{%- endfor -%}
"""

TEMPLATES = [CHATML, LLAMA2, LLAMA3, ZEPHYR, MISTRAL]

CHATS = [
    [{"role": "user", "content": "Hello there"}],
    [{"role": "system", "content": " Be kind. "}, {"role": "user", "content": "  Hi \n"},
     {"role": "assistant", "content": "Hello! "},
     {"role": "user", "content": "Wie geht's, señor? 中文"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
    [{"role": "assistant", "content": "b"}],
    [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    [{"role": "tool", "content": "42"}],
]

# Rendered with MESSAGES below; one construct each.
SNIPPETS = r"""
{{ 'a' 'b' "c\n\t\\\'\"\x41\u00e9\101\q" }}
{{ 1 + 2 * 3 - 4 // 3 % 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ - 3 + 1 }}
{{ 'a' + 'b' ~ 1 ~ true ~ none ~ 2 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ 1 == true }} {{ '1' == 1 }} {{ 1 != 2 }}
{{ 'x' in 'axb' }} {{ 'x' not in 'ab' }} {{ 1 in [1, 2] }} {{ 'role' in messages[0] }}
{{ not true }} {{ not false and true }} {{ true or x.y.z }} {{ '' or 'b' }} {{ 'a' and 'b' }}
{{ 'yes' if messages else 'no' }}|{{ 'a' if false }}|{{ 1 if false else 2 if false else 3 }}
{{ none | selectattr('a') | list | length }} {{ nothing | map(attribute='a') | list | length }} {{ 0 | reject | list | length }}
{{ undefined_thing }}|{{ messages[0].nothing }}|{{ messages[99] }}|{{ messages[-1].role }}
{{ undefined_thing is defined }} {{ messages is defined }} {{ messages is not defined }}
{{ messages[0].content is string }} {{ messages is string }} {{ messages[0] is mapping }}
{{ messages is iterable }} {{ none is none }} {{ 3 is odd }} {{ 3 is even }} {{ 3 is number }}
{{ true is boolean }} {{ true is true }} {{ 'a' is eq 'a' }} {{ 'a' is equalto('b') }} {{ 1 is in [1] }}
{{ not x is defined }} {{ 1 is defined and 2 is defined }} {{ 5 is sequence }} {{ 'a' is ne 'a' }}
{{ 'abc'[0] }}{{ 'abc'[-1] }}{{ 'añc'[1:] }}{{ 'abc'[:-1] }}{{ 'abc'[1:2] }}{{ 'abc'[5:] }}|{{ 'abc'[9] }}
{% for m in messages[1:] %}{{ m.role }},{% endfor %}{% for m in messages[::-1] %}{{ m.role[0] }}{% endfor %}
{% for m in messages[:2] %}{{ m.role[0] }}{% endfor %}{% for m in messages[::2] %}{{ m.role[0] }}{% endfor %}
{% for m in messages[-2:] %}{{ m.role[0] }}{% endfor %}{% for m in messages[5:1:-1] %}{{ m.role[0] }}{% endfor %}
{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }} {% endfor %}
{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined }}>{{ loop.nextitem.role if not loop.last }};{% endfor %}
{% for m in messages if m.role == 'user' %}{{ loop.index }}/{{ loop.length }} {% else %}none{% endfor %}
{% for m in messages if m.role == 'nobody' %}{{ m }}{% else %}none{% endfor %}
{% for m in [] %}{{ m }}{% else %}empty{% endfor %}{% for c in 'añb' %}[{{ c }}]{% endfor %}
{% for k in messages[0] %}{{ k }} {% endfor %}{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}
{% for k, v in messages[0] | items %}{{ k }}={{ v }};{% endfor %}{% for a, b in [[1, 2], (3, 4)] %}{{ a + b }} {% endfor %}
{% for m in messages %}{% if loop.index == 2 %}{% continue %}{% elif loop.index == 4 %}{% break %}{% endif %}{{ loop.index }}{% endfor %}
{% set x = 1 %}{% for m in messages %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}
{% set n = namespace(x=1, y='a') %}{% for m in messages %}{% set n.x = n.x + 1 %}{% endfor %}{{ n.x }}{{ n.y }}
{% if true %}{% set y = 3 %}{% endif %}{{ y }}{% set a = messages[0].nothing %}{{ a is defined }}
{% set x = 1 %}{% for m in messages[:1] %}{% set x = m.nothing %}{{ x is defined }}{% endfor %}{{ x }}
{% set t %}  a {{ 1 + 1 }} b {% endset %}[{{ t }}]{{ t | trim }}
{% generation %}answer{% endgeneration %}
{{ '  a b ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ 'aBc' | upper }}|{{ 'aBc' | lower }}|{{ 'aBC dE' | capitalize }}|{{ 'aBC dE' | title }}
{{ messages | length }} {{ 'añb' | length }} {{ messages[0] | count }} {{ undefined_thing | length }}
{{ messages | first | length }} {{ (messages | last).role }} {{ [3, 1] | first }} {{ 'abc' | last }} {{ [] | first }}
{{ ['a', 1, none] | join('-') }} {{ 'abc' | join(', ') }} {{ ['a'] | join }}
{{ undefined_thing | default('d') }} {{ '' | default('d') }} {{ '' | default('d', true) }} {{ none | d('x', boolean=true) }} {{ 1 | default }}
{{ '12' | int + 1 }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3 | string ~ 'a' }} {{ 'a-b-c' | replace('-', '+') }} {{ 'a-b-c' | replace('-', '', 1) }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'equalto', 'user') | map(attribute='role') | join(',') }}
{{ ['a', '', 'b'] | select | join }} {{ [1, 2, 3] | reject('odd') | join }} {{ [1, 2, 3] | select('equalto', 3) | join }} {{ messages | selectattr('name') | list | length }}
{{ 'abc' | list | reverse | join }} {{ [1, 2] | reverse | join }}
{{ messages[0] | tojson }} {{ {'a': [1, true, none], 'b': {}} | tojson }} {{ 'é"' | tojson }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}
{{ {'a': [1, {'b': 2}]} | tojson(indent=2) }} {{ [] | tojson(indent=4) }}
{{ '  x '.strip() }}|{{ 'xxa'.lstrip('x') }}|{{ 'axx'.rstrip('x') }}|{{ 'Ab'.upper() }}|{{ 'Ab'.lower() }}|{{ 'ab cd'.title() }}|{{ 'ab'.capitalize() }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('ab') }} {{ 'a,b,,c'.split(',') | join('|') }} {{ ' a  b c '.split() | join('|') }} {{ 'a,b,c'.split(',', 1) | last }} {{ ' a  b c '.split(none, 1) | last }}
{{ 'aXbX'.replace('X', 'y') }} {{ messages[0].get('role') }} {{ messages[0].get('no') }} {{ messages[0].get('no', 'd') }} {{ messages[0].keys() | join(',') }} {{ messages[0].values() | first }}
{{ range(3) | join }} {{ range(1, 8, 3) | join(',') }} {{ range(3, 0, -1) | join }} {{ dict(a=1).a }} {{ {'a': 1}['a'] }} {{ {'a': 1}.b is defined }}
{{ strftime_now is defined }} {{ raise_exception is defined }} {{ (1, 2) | length }} {{ (1) + 1 }} {{ () | length }} {{ [1, 2,] | length }}
{{ messages[0]['content'][:3] ~ '...' }} {{ (messages | length) * 2 }} {{ messages[messages | length - 1].role }}
{{ [1] + [2] | length }} {{ ([1] + [2]) | length }} {{ 'a' ~ 'b' | upper }} {{ -1 | string }} {{ 2 * 3 ~ 'x' }}
{{ 1.role }}
{{ true }}{{ false }}{{ none }}{{ True }}{{ None }}{{ 5 }}{{ -5 }}{{ messages[3].score }}{{ messages[3].count }}
a {#- comment -#} b {# another #}
{#+ kept #} c
{{- 'x' -}}   y   {{- 'z' }}
 {{ 'p' }}  {% if true -%}   q   {%- endif %}   r
{{ messages[0].content + 1 }}
{{ 1 + 'a' }}
{{ none + 'a' }}
{{ undefined_thing.x }}
{{ undefined_thing + 'a' }}
{{ undefined_thing['x'] }}
{{ 'a' < 1 }}
{{ 5 | length }}
{{ 1 // 0 }}
{% for x in 5 %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% set messages.x = 1 %}
{{ none.x }}|{{ none is defined }}|{{ messages.x }}
{{ raise_exception('told so') }}
{{ messages[0].content.nope }}|{{ 'a'.nope is defined }}
{{ 'ẞß'.lower() }} {{ 'éà' | upper }} {{ 'ÉÀ' | lower }}
{% if messages[0].content is defined and messages[0].content is not none and messages[0].content != '' %}t{% endif %}
{{ '%}' }}{{ "}}" }}{{ {'a': {'b': 1}}['a']['b'] }}
{% if not loop is defined %}no loop{% endif %}{% set loop_messages = messages %}{{ loop_messages | length }}
{{ ['a', 'b'][1] }} {{ ['a', 'b'][-1] }} {{ ['a'][3] is defined }} {{ 'a' in ['b', 'a'] and 'c' not in 'ab' }}
{% macro f(a, b=2, c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(b=5, a=4) }}{{ f(1, c=9) }}{{ f() }}
{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 'a', x=2) }}{{ f() }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, a=2) }}
{% set x = 1 %}{% macro f() %}{{ x }}{% set x = 3 %}{{ x }}{% endmacro %}{% set x = 2 %}{{ f() }}{{ x }}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(4) }}
{% macro f(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) f(3) %}{{ y * 2 }}{% endcall %}{% macro g() %}{{ caller is defined }}{% endmacro %}{{ g() }}
{% macro f() %}a{% endmacro %}{% call f() %}b{% endcall %}
{% macro f(a) %}x{{ a | upper }}{% endmacro %}{{ f('b') | upper ~ f('c').strip() }}{{ f is callable }}{{ f.name }}{{ f }}
{% for i in [1, 2] %}{% macro f() %}{{ i }}{{ loop is defined }}{% endmacro %}{{ f() }}{% endfor %}
{% filter upper %}a{{ 'b' }}{% endfilter %}{% filter replace('a', 'b') | trim %} aab {% endfilter %}{% set t | upper %}x{{ 1 }}{% endset %}{{ t }}
{% raw %}{{ x }}{% if %}{# c #}{% endraw %}|{%- raw -%}  {{ y }}  {%- endraw -%} z
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% set a = 3 %}{{ a }}{% endwith %}{{ a is defined }}{% set a = 5 %}{% with a = 6, b = a %}{{ b }}{% endwith %}
{% for x in [[1, [2, [3]]], 4] recursive %}{{ loop.depth }}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}
{% for x in range(4) %}{{ loop.cycle('a', 'b', 'c') }}{{ loop.changed(x // 2) }} {% endfor %}
{% generation %}{% set z = 1 %}{{ z }}{% endgeneration %}{{ z is defined }}{% block b %}{{ 1 }}{% endblock %}
{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}
{{ 1.5 }} {{ 1e3 }} {{ 2.50 }} {{ 1e-7 }} {{ 1e16 }} {{ 123456789.125 }} {{ 0x1f }} {{ 0b11 }} {{ 0o17 }} {{ 1_000 }} {{ 1.0 }} {{ 100000.0 * 10 }} {{ 0.1 + 0.2 }} {{ 1e22 }} {{ 1.5e300 * 1e10 }}
{{ 6 / 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ -2 ** 2 }} {{ +3 }} {{ 2 * 1.5 }} {{ 1 / 0 }}
{{ -7.5 // 2 }} {{ 3 % 2.5 }} {{ 10 ** 18 }} {{ 2.0 ** 0.5 }} {{ true + 1 }} {{ 'ab' * 3 }} {{ [1] * 2 }} {{ 3 * 'x' }} {{ 'x' * -1 }}|
{{ [1, 'a', "it's", none, true, 1.5, {'k': [1]}] }} {{ (1,) }} {{ (1, 2) }} {{ () }} {{ [] }} {{ {} }} {{ 1, 2 }} {{ ['a"b', 'a"b\'c', '\n\t\\', 'é\u200b\u0001'] }} {{ [nothing] }}
{{ messages[1] }} {{ messages[1] | string | length }} {{ {'a': 1}.items() }} {{ {'a': 1}.keys() }} {{ {'a': 1}.values() }} {{ namespace(a=1) }} {{ {1: 'a', true: 'b', none: 2} }}
{{ {'b': 2, 'a': 1, 'C': 3} | dictsort }} {{ {'b': 2, 'a': 1} | dictsort(by='value') }} {{ {'b': 2, 'a': 1, 'C': 0} | dictsort(true, reverse=true) }} {% for k, v in {'z': 1, 'y': 2} | dictsort %}{{ k }}{{ v }}{% endfor %}
{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A', 'c'] | sort(case_sensitive=true) }} {{ [3, 1, 2] | sort(reverse=true) }} {{ messages | sort(attribute='role') | map(attribute='role') | list }} {{ 'cab' | sort }}
{{ messages | sort(attribute='role,content') | map(attribute='content') | join('|') }} {{ [1, 'a'] | sort }}
{{ [3, 1, 2] | min }} {{ [3, 1, 2] | max }} {{ ['b', 'A'] | min }} {{ [] | min }} {{ messages | max(attribute='role') | length }} {{ [1, 2.5] | sum }} {{ messages | selectattr('count') | sum(attribute='count', start=1) }}
{{ [1, 2, 1, 'a', 'A'] | unique | list }} {{ ['a', 'A'] | unique(true) | list }} {{ messages | unique(attribute='role') | map(attribute='role') | join(',') }} {{ [[1], [1]] | unique | list }}
{{ 'a\nb\n\nc' | indent }}| {{ 'a\nb\n\nc\n' | indent(2, true) }}| {{ 'a\n\nb' | indent(2, blank=true) }}| {{ 'a\nb' | indent('> ', first=true) }}| {{ '' | indent(2, true) }}|
{{ -3 | abs }} {{ (-3) | abs }} {{ -2.5 | abs }} {{ '3.5' | float }} {{ 'x' | float }} {{ 'x' | float(1.5) }} {{ 3 | float }} {{ '0x1f' | int(base=16) }} {{ '1f' | int(0, 16) }} {{ '3.9' | int }} {{ 3.9 | int }} {{ ' 7 ' | int }} {{ '1_0' | int }} {{ none | int }}
{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.345 | round(2) }} {{ 2.1 | round(0, 'ceil') }} {{ 2.9 | round(method='floor') }} {{ 5 | round }} {{ 1234 | round(-2) }} {{ 2.675 | round(2) }} {{ 1e10 | round(3) }}
{{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 'x') | list }} {{ [1, 2, 3, 4, 5] | slice(2) | list }} {{ [1, 2, 3] | slice(2, 'x') | list }} {{ [1, 2] | slice(2, 0) | list }}
{% for g in messages | groupby('role') %}{{ g.grouper }}:{{ g.list | length }} {% endfor %}{% for k, l in messages | groupby('role') %}{{ k }}{{ l[0].content | length }}{% endfor %} {{ [{'a': 1}] | groupby('a') }}
{{ '<a href="x">\'&' | escape }} {{ '<' | e | e }} {{ '<' | e | forceescape }} {{ '<b>' | safe + '<c>' }} {{ '<' + '>' | safe }} {{ ('<' | safe) ~ '<' }} {{ ('a<' | safe).upper() + '<' }} {{ ['<' | safe] }} {{ ('<' | safe) * 2 + '&' }}
{{ 'a b&c/ü=' | urlencode }} {{ {'a b': 'c&d', 'e': 1} | urlencode }} {{ 'one two, three_x 4' | wordcount }} {{ 'it is longer than ten' | truncate(10) }} {{ 'it is longer than ten' | truncate(10, true, '!') }} {{ 'short' | truncate(3) }} {{ 'ab' | center(7) }}|{{ 'abc' | center(6) }}|
{{ 'a-b c(d' | title }} {{ "it's a" | title }} {{ "it's a" .title() }} {{ 'ÉTÉ à' | title }} {{ 'aBC' | capitalize }} {{ 'aB1' .swapcase() }}
{{ [1, 2] | first }} {{ {'a': 1} | first }} {{ {'a': 1, 'b': 2} | last }} {{ ['x', 'y'] | map('upper') | join }} {{ [' a '] | map('trim') | list }} {{ ['a-b'] | map('replace', '-', '+') | first }} {{ messages | map(attribute='nope', default='d') | join }}
{{ [1, 2, 3] | select('gt', 1) | list }} {{ [1, 2, 3] | reject('le', 2) | list }} {{ [1, 2] | select('in', [2, 3]) | list }} {{ messages | selectattr('count', 'ge', 7) | list | length }} {{ messages | selectattr('role', '==', 'user') | list | length }} {{ [{'a': {'b': [5]}}] | map(attribute='a.b.0') | list }}
{{ 3 is ge 3 }} {{ 3 is gt(3) }} {{ 3 is le 2 }} {{ 3 is lt 4 }} {{ 3 is lessthan 4 }} {{ none is sameas none }} {{ 1 is sameas true }} {{ range is callable }} {{ 'A' is upper }} {{ 'a1' is lower }} {{ 9 is divisibleby 3 }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ 1.0 is float }} {{ 1 is float }} {{ '' is escaped }}
{{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) }} {{ 'abcb'.find('b') }} {{ 'abcb'.rfind('b') }} {{ 'abc'.find('z') }} {{ 'abcb'.find('b', 2) }} {{ 'äbäb'.find('b', -1) }} {{ 'abab'.count('ab') }} {{ 'abc'.index('c') }} {{ ','.join(['a', 'b']) }} {{ (1, 2).index(2) }}
{{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ '12'.isdigit() }} {{ ''.isdigit() }} {{ 'ab'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'A1'.isupper() }} {{ 'a'.islower() }} {{ '½'.isnumeric() }} {{ '½'.isdigit() }} {{ 'é'.isascii() }}
{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ 'a.b.c'.rsplit('.', 1) }} {{ 'a  b c'.rsplit(none, 1) }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'a'.partition('=') }} {{ 'a'.rpartition('=') }} {{ 'ab'.ljust(4, '.') }} {{ 'ab'.rjust(4) }} {{ 'ab'.center(5, '*') }} {{ '-5'.zfill(4) }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.replace('', '-') }} {{ 'aaa'.replace('a', 'b', 2) }}
{{ '{} {1} {0}'.format(1, 2) }}
{{ '{0} {x} {0!r}'.format('a', x=2) }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('ab', 'cd', 'ef', 'g') }} {{ '{:05d} {:+d} {:,} {:x} {:#x} {:b}'.format(42, 7, 1234567, 255, 255, 5) }} {{ '{:.2f} {:8.3f} {:e} {:g} {:%}'.format(3.14159, 2.5, 12345.678, 0.0001, 0.25) }} {{ '{{}} {a[k]} {b.role}'.format(a={'k': 1}, b=messages[0]) }} {{ '{:{}}|'.format('a', 4) }} {{ '{:.3}'.format('abcdef') }}
{{ '%s %d %5.2f %05d %-5s| %r %% %x' % ('a', 3, 2.5, 42, 'b', 'c', 255) }} {{ '%s' % 'one' }} {{ '%(a)s-%(b)d' % {'a': 1, 'b': 2} }} {{ '%s-%s' | format('a', 'b') }} {{ '%(x)s' | format(x=3) }} {{ '%+d % d %e %g' % (1, 2, 1.5, 1e-5) }} {{ '%.3s|%5s|%*d' % ('abcdef', 'x', 4, 7) }} {{ '%i' % 3.7 }} {{ '%s' % [1] }}
{{ '%d' % 'a' }}
{{ '%s %s' % 'a' }}
{{ '%s' % ('a', 'b') }}
{{ '{}'.format() }}
{{ '{'.format(1) }}
{{ {'a': 1, 'b': none, 'c': 1.5, 'd': 'é"\n\u0001/<>&', 'e': (1, 2)} | tojson }} {{ 'é😀' | tojson(ensure_ascii=true) }} {{ {'b': [1, {}], 'a': []} | tojson(indent=2, sort_keys=true) }} {{ [1, 2] | tojson(separators=(',', ':')) }} {{ {1: 2, true: 3, none: 4, 1.5: 5} | tojson }} {{ [1] | tojson(indent='  ') }} {{ 1e100 | tojson }} {{ -0.0 | tojson }}
{{ nothing | tojson }}
{{ namespace(a=1) | tojson }}
{{ [1] | map('upper') | tojson }}
{{ {'items': 5}.items is callable }} {{ {'items': 5}['items'] }} {{ {'get': 1}.get('get') }} {{ {'a': {'keys': 1}}.a['keys'] }} {{ 'abc'['upper']() }} {{ [1, [2, 3]].1.0 }} {{ 'x'.upper is callable }}
{% set g = [1, 2, 3] | select('odd') %}{{ g | list }}{{ g | list }}{% if [] | select %}t{% else %}f{% endif %}{% if {}.items() %}t{% else %}f{% endif %}{{ {'a': 1}.items() | length }}
{{ [1] | select | length }}
{{ ([1, 2] | map('string'))[0] is defined }} {{ 'abc'[::-1] }} {{ 'abcdef'[1::2] }} {{ [1, 2, 3][::-2] }} {{ (1, 2, 3)[1:] }} {{ 'abc' | reverse }} {{ [1, 2] == (1, 2) }} {{ [1, 2] == [1, 2.0] }} {{ {'a': 1} == {'a': 1.0} }} {{ (1, 2) < (1, 3) }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ 1 in (1, 2) }} {{ 'a' in {'a': 1}.keys() }}
{{ [1] + (2,) }}
{{ dict([['a', 1]], b=2) }} {{ dict({'a': 1}, a=3) }} {{ namespace({'a': 1}, b=2).b }} {% set ns = namespace() %}{% set ns.x = [] %}{{ ns.x }} {{ ns.nope is defined }} {{ range(5)[2] }} {{ range(5) | length }} {{ 3 in range(5) }}
{{ range(100001) | length }}
{% if false %}{{ x | nofilter }}{{ y is notest }}{{ z.nomethod() }}{{ nofunction() }}{% endif %}ok
{{ 'x' | nofilter }}
{{ 'x' is notest }}
{{ 'x'.nomethod() }}
{{ nofunction() }}
{% macro f(x) %}{% for y in x %}{{ y }}{% if not loop.last %},{% endif %}{% endfor %}{% endmacro %}{{ f(*[[1, 2]]) }}{{ f(**{'x': 'ab'}) }}
{{ tools is none }} {{ tools is defined }} {{ documents is none }} {{ undefined_thing ~ 'x' }} {{ undefined_thing | upper }}| {{ undefined_thing == none }} {{ undefined_thing is iterable }} {{ undefined_thing in [1] }} {{ nope | length }} {{ nope | list }} {{ nope | join }}|
{{ 'a' if undefined_thing }}{{ (undefined_thing | default({})).get('x') }}{{ undefined_thing | default }}{{ none | default('x') }}{{ 5 | default(1) }}
{% for x in undefined_thing %}a{% else %}b{% endfor %}{% for k in {'a': 1} %}{{ k }}{% endfor %}{% for x in (1, 2) %}{{ x }}{% endfor %}{% for x in 'ab' | map('upper') %}{{ x }}{{ loop.last }}{% endfor %}
{{ 9223372036854775807 }} {{ -9223372036854775807 }} {{ 5 // 2 * 2.0 }} {{ 1 == 1.0 }} {{ 'a' < 'b' < 'c' }} {{ 1 < 'a' }}
{{ 'x' | attr('upper') is callable }} {{ {'a': 1} | attr('a') is defined }} {{ 'ß' | length }} {{ '😀x'[1] }} {{ '😀x' | length }}
{% set x = namespace(found=false) %}{% for i in [1, 2] if i > 1 %}{% set x.found = i %}{% endfor %}{{ x.found }}{% for i in [1, 2, 3] if i is odd and loop is not defined %}{{ i }}{% endfor %}
{{ messages | map(attribute='content') | map('length') | list }} {{ messages[0].content.split('e') | length }} {{ 'a,b'.split(',')[0] }} {{ ('a b' | trim).split()[1] }} {{ 'abc'.format() }} {{ ('a' ~ 1).upper() }}
{{ 4.0 % -2 }} {{ -4.0 % 2 }} {{ 0.5 // -1 }} {{ 0.0 // -1 }} {{ (3)[1:] is undefined }} {{ true[:1] is undefined }}
""".strip("\n").split("\n")

# Cases that need lines, separated by lines of dashes.
BLOCKS = r"""
{% for m in messages %}
  {% if loop.first %}
  first
  {% else %}
{{ m.role }}
  {%- endif %}

{% endfor %}
end
----
{%- set a = 1 -%}

  text

{%- if a == 1 %}
  one
{%- else -%}
  other
{%- endif -%}
  tail
----
line one {# comment
over lines #}
  {# indented comment #}
after
----
    {%- for x in [1, 2] %}

    {{ x }}
    {% endfor %}
----
  {% if true %}
    indented
  {% endif %}
  {%+ if true %}kept{% endif +%}
{{ 'p' }}  {%- if true +%}
q{%+ endif %}
----
{{ 'a
b' }}	tab {{ "x" }}


----
  {% raw %}
  {{ x }}
  {% endraw %}
after
----
{% macro f(a) -%}
  {{ a }}
{%- endmacro %}
  {{ f(1) }}
{% call(x) f(2) %}y{% endcall %}
  {% filter upper %}
  a
  {% endfilter %}
  {% set b %}
    x
  {% endset %}
[{{ b }}]
""".strip("\n").split("\n----\n") + ["trailing\n", "trailing\n\n", "\n", "", "dos\r\n{% if true %}\r\nx\r\n{% endif %}\r\n"]

MESSAGES = CHATS[1] + []
MESSAGES[3] = dict(MESSAGES[3], score=0.1, count=7, name="n")


def reject(message):
    raise jinja2.exceptions.TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("text"), [], [], body).set_lineno(line)

    def text(self, caller):
        return caller()


def environment(kind=ImmutableSandboxedEnvironment):
    env = kind(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = to_json
    env.globals.update(raise_exception=reject, strftime_now=lambda form: "")
    return env


def case(env, source, messages, prompt, variables=None):
    made = {"source": source, "messages": messages, "add_generation_prompt": prompt}
    if variables:
        made["variables"] = variables
    known = {"tools": None, "documents": None, **json.loads(json.dumps(variables or {}))}
    try:
        made["text"] = env.from_string(source).render(
            messages=json.loads(json.dumps(messages)), add_generation_prompt=prompt, bos_token=BOS, eos_token=EOS,
            **known)
    except Exception as error:  # whatever it is, we must reject as well
        made["rejected"] = True
        made["why"] = f"{type(error).__name__}: {error}"
    return made


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "t/data/template/vectors.json")
    env = environment()
    cases = [case(env, source, messages, prompt)
             for source in TEMPLATES for messages in CHATS for prompt in (False, True)]
    cases += [case(env, source, MESSAGES, True) for source in SNIPPETS + BLOCKS]
    for made in cases:
        made.pop("why", None)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")
    print(f"{out}: {len(cases)} cases, {sum('rejected' in c for c in cases)} of them rejected, "
          f"made with jinja2 {jinja2.__version__}")


if __name__ == "__main__":
    main()
