# SPDX-License-Identifier: Apache-2.0
"""The ollama client, unchanged: lists, chats, prompts and vectors, whole and streamed, and errors."""
import sys

import ollama
from tap import MODEL, end, ok, raises, same

client = ollama.Client(host=sys.argv[1])
same([m.model for m in client.list().models], [MODEL], "list")
same(client.ps().models[0].model, MODEL, "ps")
ok("completion" in client.show(MODEL).capabilities, "show")
ASK = {"model": MODEL, "options": {"num_predict": 40, "temperature": 0, "stop": ["time"]}}
messages = [{"role": "user", "content": "Once upon a time"}]
said = client.chat(messages=messages, **ASK)
ok(said.message.content.endswith("upon a "), "a chat")
same((said.done, said.done_reason), (True, "stop"), "  with its end")
ok(said.total_duration > 0 and said.eval_count > 0, "  and figures")
parts = list(client.chat(messages=messages, stream=True, **ASK))
same("".join(p.message.content for p in parts), said.message.content, "a stream has the same")
same([p.done for p in parts if p.done], [True], "  and one end")
made = client.generate(prompt="Once upon a time", **ASK).response
same("".join(p.response for p in client.generate(prompt="Once upon a time", stream=True, **ASK)), made, "a prompt, streamed")
ok("upon" in client.generate(prompt="Once upon a time", raw=True, **ASK).response, "a raw prompt")
vectors = client.embed(model=MODEL, input=["Once", "Once upon"]).embeddings
same(len(vectors), 2, "vectors")
same(list(client.embeddings(model=MODEL, prompt="Once").embedding), list(vectors[0]), "  and one, as older clients ask")
error = raises(ollama.ResponseError, lambda: client.generate(model=MODEL, prompt="x", template="y"), "an error")
ok(error is not None and error.status_code == 400 and error.error.startswith("'template'"), "  that names the parameter")
end()
