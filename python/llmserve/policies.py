# SPDX-License-Identifier: Apache-2.0
"""Policies by name, as llmserve-whatif writes them: SCHEDULER[+CACHE[+PREDICTOR[+DRAFTER]]][:KEY=VALUE]..."""

KINDS = ("scheduler", "cache", "predictor", "drafter")


def settings(text):
    """Returns the settings of such a text, {"plugins.scheduler": "sarathi", "scheduler.sarathi.chunk": "256"}.

    A parameter is its scheduler's; of another kind it is written KIND.KEY=VALUE.
    """
    names, *parameters = text.split(":")
    chosen = dict(zip(KINDS, names.split("+")))
    if not all(chosen.values()) or names.count("+") >= len(KINDS):
        raise ValueError(f"{text!r}: expected SCHEDULER[+CACHE[+PREDICTOR[+DRAFTER]]][:KEY=VALUE]...")
    result = {f"plugins.{kind}": name for kind, name in chosen.items()}
    for parameter in parameters:
        key, equals, value = parameter.partition("=")
        kind, dot, rest = key.partition(".")
        if not dot:
            kind, rest = "scheduler", key
        if not equals or kind not in chosen:
            raise ValueError(f"{text!r}: {parameter!r} is not a parameter of {' or '.join(chosen)}")
        result[f"{kind}.{chosen[kind]}.{rest}"] = value
    return result


def arguments(values):
    """Returns --set arguments for settings, {"section.key": value}."""
    return [f"--set={key}={text(value)}" for key, value in values.items()]


def text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
