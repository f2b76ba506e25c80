# SPDX-License-Identifier: Apache-2.0
"""The Claude Agent SDK and the program it brings (Claude Code), unchanged, against a model that replays a script:
it calls the program's Read tool, gets what the file has, and answers. Neither a home folder nor an account of the
user is touched."""
import asyncio
import os
import pathlib
import sys
import tempfile

HOME = tempfile.TemporaryDirectory()
for name in [name for name in os.environ if name.startswith(("ANTHROPIC", "CLAUDE"))]:
    del os.environ[name]

from claude_agent_sdk import (AssistantMessage, ClaudeAgentOptions, ResultMessage, TextBlock,  # noqa: E402
                              ToolResultBlock, ToolUseBlock, UserMessage, query)
from tap import MODEL, URL, end, ok, same  # noqa: E402

NOTE = pathlib.Path(sys.argv[2])  # the script's call names it
OPTIONS = ClaudeAgentOptions(
    model=MODEL, cwd=NOTE.parent, allowed_tools=["Read"], max_turns=3, setting_sources=[],
    env={"ANTHROPIC_BASE_URL": URL.removesuffix("/v1"), "ANTHROPIC_API_KEY": "none", "HOME": HOME.name,
         "CLAUDE_CONFIG_DIR": HOME.name, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1"})


async def run():
    uses, results, texts, last = [], [], [], None
    async for message in query(prompt="What does the note say?", options=OPTIONS):
        blocks = message.content if isinstance(message, (AssistantMessage, UserMessage)) else []
        for block in blocks if isinstance(blocks, list) else []:
            if isinstance(block, ToolUseBlock):
                uses.append((block.name, block.input))
            elif isinstance(block, ToolResultBlock):
                results.append(block)
            elif isinstance(block, TextBlock) and isinstance(message, AssistantMessage):
                texts.append(block.text)
        last = message
    same(uses, [("Read", {"file_path": str(NOTE)})], "a call of the program's tool")
    ok(len(results) == 1 and not results[0].is_error, "  which runs")
    ok(results and NOTE.read_text().strip() in str(results[0].content), "  and reads the file")
    same(texts, ["The note says hello."], "the answer after it")
    ok(isinstance(last, ResultMessage) and not last.is_error, "the end")
    same(last.result, "The note says hello.", "  with the answer")
    ok(last.usage["output_tokens"] > 0, "  and usage")
    same(last.num_turns, 2, "  after two turns")


asyncio.run(run())
end()
