# SPDX-License-Identifier: Apache-2.0
"""Requests as llmserve-trace(5)'s csv has them."""

import csv
import dataclasses
from typing import Optional


@dataclasses.dataclass
class Request:
    """A request of a workload. Times are in seconds and milliseconds as the names say; None: not given."""

    prompt_tokens: int
    output_tokens: int
    arrival_s: Optional[float] = None
    max_new_tokens: Optional[int] = None
    priority: Optional[int] = None
    tenant: Optional[int] = None
    label: Optional[str] = None
    ttft_ms: Optional[float] = None
    tbt_ms: Optional[float] = None
    tpot_ms: Optional[float] = None
    completion_ms: Optional[float] = None
    prefix: Optional[int] = None
    prefix_tokens: Optional[int] = None
    session: Optional[str] = None
    wait_ms: Optional[float] = None
    tool: Optional[str] = None
    kept_tokens: Optional[int] = None
    realtime: Optional[bool] = None  # the column "class": realtime, best_effort or empty


CLASSES = {True: "realtime", False: "best_effort", None: ""}
COLUMNS = [field.name for field in dataclasses.fields(Request) if field.name != "realtime"]
TEXTS = ("label", "session", "tool")
WHOLE = ("prompt_tokens", "output_tokens", "max_new_tokens", "priority", "tenant", "prefix", "prefix_tokens", "kept_tokens")


def read_trace(path):
    """Returns the requests of a csv file."""
    with open(path, newline="", encoding="utf-8") as file:
        return [request_of(row) for row in csv.DictReader(file)]


def request_of(row):
    values = {}
    if row.get("arrival_ns"):
        values["arrival_s"] = int(row["arrival_ns"]) / 1e9
    for name in COLUMNS:
        text = row.get(name)
        if text:
            values[name] = text if name in TEXTS else int(text) if name in WHOLE else float(text)
    classes = {name: value for value, name in CLASSES.items()}
    return Request(realtime=classes[row.get("class") or ""], **values)


def write_trace(path, requests):
    """Writes requests, with the columns that any of them has."""
    requests = list(requests)
    used = [name for name in COLUMNS if any(getattr(r, name) is not None for r in requests)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*used, "class"])
        for r in requests:
            values = [getattr(r, name) for name in used]
            writer.writerow(["" if value is None else value for value in values] + [CLASSES[r.realtime]])
