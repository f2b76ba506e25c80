#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shortest request first, with ageing: the policy of `llmserve --new-plugin scheduler`, in Python.

    PYTHONPATH=python llmserve-sim --set plugins.scheduler=pipe \
        --set scheduler.pipe.command="python3 examples/policies/shortest.py" --model opt-13b --profile a100-40g

A request counts as AGEING tokens shorter for every second it has waited, so that none waits for ever.
"""

from llmserve.policy import Scheduler, run

AGEING = 100  # tokens/s


class Shortest(Scheduler):
    def order(self, view):
        def rank(r):
            waited_s = (view.now_ns - r.queue_enter_ns) / 1e9
            answer = r.prediction.length if r.prediction else 0
            return r.prompt_tokens + answer - AGEING * waited_s

        return sorted(view.waiting, key=rank)  # equals stay in order of arrival


run(Shortest())
