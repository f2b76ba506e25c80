# SPDX-License-Identifier: Apache-2.0
"""python -m llmserve ...: the server."""

from .programs import run

run("llmserve")
