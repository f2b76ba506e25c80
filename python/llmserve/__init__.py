# SPDX-License-Identifier: Apache-2.0
"""llmserve from Python: a server for tests and notebooks, and the simulator.

    from llmserve import Server, simulate

    with Server("Qwen3-0.6B-Q8_0.gguf", scheduler="sarathi") as server:
        print(server.chat("List five animals."))

    rows = simulate(["worth", "sarathi:chunk=256"], model="llama-3-8b", request_rate=4)

Nothing here is imported but Python's own modules. The programs are those of the wheel that this
module is part of; else those in PATH.
"""

from .server import Server, ServerError
from .simulation import SimulationError, plot, simulate
from .trace import Request, read_trace, write_trace

__version__ = "0.1.0"
__all__ = [
    "Request",
    "Server",
    "ServerError",
    "SimulationError",
    "plot",
    "read_trace",
    "simulate",
    "write_trace",
]
