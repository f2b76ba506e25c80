# SPDX-License-Identifier: Apache-2.0
"""A scheduler in Python, for the simulator: a prototype of one in C.

    from llmserve.policy import Scheduler, run

    class Shortest(Scheduler):
        def order(self, view):
            return sorted(view.waiting, key=lambda r: r.prompt_tokens)

    run(Shortest())

    llmserve-sim --set plugins.scheduler=pipe --set scheduler.pipe.command="python3 shortest.py" ...

The scheduler `pipe` starts the file. Requests have the members of struct lls_request, and calls the names
and effects of <llmserve/policy/step.h>, in which `llmserve --new-plugin scheduler` writes them in C.
"""

import json
import os
import sys
from types import SimpleNamespace


class Step:
    """The plan in the making: struct lls_pol_step."""

    def __init__(self, call):
        self.call = call

    def left(self):
        """Returns what the step has left: tokens, sequences; and running, how many of view.running were not
        preempted in this plan; preempted, how many were."""
        return SimpleNamespace(**self.call("left"))

    def is_full(self):
        left = self.left()
        return left.tokens == 0 or left.sequences == 0

    def run(self, request, tokens):
        self.call("run", request.id, tokens)

    def reject(self, request):
        self.call("reject", request.id)

    def preempt(self, request):
        return self.call("preempt", request.id)

    def grow(self, place, tokens):
        """Reserves memory for tokens of view.running[place], if necessary by preempting those after it."""
        return self.call("grow", place, tokens)

    def pending(self, request):
        """Returns the tokens to compute until the next one comes out, without those that the cache has."""
        return self.call("pending", request.id)

    def admit(self, request, pending):
        """Reserves memory for a waiting request. Returns "yes", "not_now" or "rejected"."""
        return self.call("admit", request.id, pending)

    def bring_back(self, request, pending):
        """... for a request of view.preempted."""
        return self.call("bring_back", request.id, pending)

    def reserve(self, request, tokens):
        """Returns 0, 1 (not now) or 2 (never): the cache service's reserve."""
        return self.call("reserve", request.id, tokens)

    def mark(self):
        return self.call("mark")

    def rollback(self, mark):
        return self.call("rollback", mark)

    def units(self):
        """Returns the units of the device's cache: free, total."""
        return SimpleNamespace(**self.call("units"))

    def random(self, stream=0):
        """Returns 63 random bits, which the simulator's seed decides."""
        return self.call("random", stream)

    def prefill_ns(self, tokens, context=0):
        """Returns the estimated time of a prompt, or None."""
        return self.call("prefill_ns", tokens, context)

    def decode_ns(self, context, n=1):
        return self.call("decode_ns", context, n)


class Scheduler:
    """What llmserve --new-plugin begins with in C: running requests go on, then others come in, in `order`."""

    def order(self, view):
        """Returns waiting requests in the order in which they are let in."""
        return view.waiting

    def plan(self, view, step):
        """Plans a step. view: step, now_ns, max_tokens, max_sequences, waiting, running, preempted."""
        self.go_on(view, step)
        if step.left().preempted == 0:  # else memory is short: no new request
            self.fill_up(view, step)

    def go_on(self, view, step):
        for i, request in enumerate(view.running):
            left = step.left()
            if i >= left.running or left.tokens == 0 or left.sequences == 0:
                return
            tokens = min(request.pending, left.tokens)
            if step.grow(i, tokens):
                step.run(request, tokens)

    def fill_up(self, view, step):
        for request in view.preempted:
            if step.is_full() or not self.let_in(step, request, step.bring_back):
                return
        for request in self.order(view) if view.waiting else []:
            if step.is_full() or not self.let_in(step, request, step.admit):
                return

    def let_in(self, step, request, has_room):
        pending = step.pending(request)
        answer = has_room(request, pending)
        if answer == "yes":
            step.run(request, min(pending, step.left().tokens))
        return answer != "not_now"

    # Events since the last plan, by requests' ids.

    def on_step(self, request, tokens, emitted):
        """A request was computed."""

    def on_finish(self, request, reason):
        """A request has ended."""

    def on_refused(self, request, refusal):
        """What the plan said of a request was not done."""


EVENTS = {"ran": "on_step", "finish": "on_finish", "refused": "on_refused"}


def view_of(message):
    def requests(name):
        return [SimpleNamespace(**{**r, "prediction": prediction(r["prediction"])}) for r in message[name]]

    def prediction(values):
        return values and SimpleNamespace(**values)

    values = {name: message[name] for name in ("now_ns", "max_tokens", "max_sequences")}
    lists = {name: requests(name) for name in ("waiting", "running", "preempted")}
    return SimpleNamespace(step=message["plan"], **values, **lists)


def run(scheduler):
    """Makes the plans that the simulator asks for, until it ends. print() writes to standard error meanwhile."""
    lines = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def write(*words):
        answers.write(json.dumps(words) + "\n")
        answers.flush()

    def call(*words):
        write(*words)
        line = lines.readline()
        if not line:
            sys.exit(0)  # the simulator has ended
        return json.loads(line)

    for line in iter(lines.readline, ""):
        message = json.loads(line)
        for kind, *words in message["events"]:
            getattr(scheduler, EVENTS[kind])(*words)
        until_ns = scheduler.plan(view_of(message), Step(call))
        write("end", *([until_ns] if until_ns is not None else []))
