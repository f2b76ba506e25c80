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
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = to_json
    env.globals.update(raise_exception=reject, strftime_now=lambda form: "")
    return env


def case(env, source, messages, prompt):
    made = {"source": source, "messages": messages, "add_generation_prompt": prompt}
    try:
        made["text"] = env.from_string(source).render(
            messages=messages, add_generation_prompt=prompt, bos_token=BOS, eos_token=EOS)
    except Exception:  # whatever it is, we must reject as well
        made["rejected"] = True
    return made


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "t/data/template/vectors.json")
    env = environment()
    cases = [case(env, source, messages, prompt)
             for source in TEMPLATES for messages in CHATS for prompt in (False, True)]
    cases += [case(env, source, MESSAGES, True) for source in SNIPPETS + BLOCKS]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")
    print(f"{out}: {len(cases)} cases, {sum('rejected' in c for c in cases)} of them rejected, "
          f"made with jinja2 {jinja2.__version__}")


if __name__ == "__main__":
    main()
