# SPDX-License-Identifier: Apache-2.0
"""llmserve-sim from Python: policies compared on a simulated device."""

import json
import os
import subprocess
import tempfile

from . import policies as names
from . import programs
from .trace import write_trace


class SimulationError(Exception):
    """llmserve-sim refused the options, or switched off a scheduler for its plans; the text is what it wrote."""


def simulate(policies, *, trace=None, settings=None, **options):
    """Returns a list of results, one for each of the policies, in order.

    policies: names such as "worth" or "apt+hybrid:...", see llmserve.policies; or one name.
    trace: a file (llmserve-trace(5)), or a list of Request; None: options make the workload.
    settings: for all of them, {"section.key": value}.
    options: those of llmserve-sim(1), with _ for -: model="llama-3-8b", request_rate=4, slo_ttft="1s".

    A result is a dict with the names of vLLM's benchmark, such as p99_ttft_ms, and "policies".
    pandas.DataFrame(simulate(...)) is a table.
    """
    if isinstance(policies, str):
        policies = [policies]
    with tempfile.TemporaryDirectory() as folder:
        common = option_arguments({**workload(trace, folder), **options}) + names.arguments(settings or {})
        return [run(name, common, os.path.join(folder, f"{i}.json")) for i, name in enumerate(policies)]


def workload(trace, folder):
    """Returns the options for a trace; without one the random workload, unless options name another."""
    if trace is None:
        return {"dataset_name": "random"}
    if not isinstance(trace, (str, os.PathLike)):
        path = os.path.join(folder, "trace.csv")
        write_trace(path, trace)
        trace = path
    return {"trace": os.fspath(trace)}


def option_arguments(options):
    result = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            result.append(option)
        elif value is not None and value is not False:
            result.append(f"{option}={value}")
    return result


def run(name, common, path):
    command = [programs.path("llmserve-sim"), *names.arguments(names.settings(name)), *common]
    done = subprocess.run(
        [*command, "--quiet", "--json", path],
        env=programs.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SimulationError(done.stderr.strip())
    with open(path, encoding="utf-8") as file:
        result = {"policies": name, **json.load(file)}
    if result["machine"]["fallen_back"]:  # most figures are those of the built-in order
        raise SimulationError(done.stderr.strip())
    return result


def plot(rows, y="p99_ttft_ms", x="request_rate", by="policies", ax=None):
    """Draws y over x, a line for each value of `by`, through matplotlib. Returns the axes."""
    import matplotlib.pyplot  # only here: the module has no dependencies

    ax = ax if ax is not None else matplotlib.pyplot.gca()
    for label in dict.fromkeys(row[by] for row in rows):
        points = sorted((row[x], row[y]) for row in rows if row[by] == label)
        ax.plot(*zip(*points), marker="o", label=label)
    ax.set(xlabel=x, ylabel=y)
    ax.legend()
    return ax
