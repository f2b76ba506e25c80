# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for vLLM's tests: starts llmserve where they start vLLM, and stands in for its Python modules.

`tests.utils` has RemoteOpenAIServer alone. Whatever a test takes from `vllm` can be imported, and fails when it is
called, so that tests of vLLM's own functions are told from tests that send requests; but a tokeniser is that of
transformers. LLMSERVE: the program; LLMSERVE_MODEL: its model, a GGUF file; LLMSERVE_WORK: a folder for its files.
"""
import contextlib
import importlib.abc
import importlib.machinery
import os
import socket
import subprocess
import sys
import tempfile
import time
import types
import urllib.request

import model

MODEL, WORK = os.environ["LLMSERVE_MODEL"], os.environ["LLMSERVE_WORK"]
ROOM = 2048  # of the context: the model often does not end by itself
FLAGS = """--enforce-eager --enable-lora --enable-auto-tool-choice --enable-prompt-tokens-details
--no-enable-prefix-caching --enable-per-request-metrics --enable-chunked-prefill
--return-tokens-as-token-ids""".split()


class TheirPython(Exception):
    """A test called vLLM's Python."""


class Stub(type):
    """A class or a constant of vLLM: it can be named, and joined in types, and neither called nor reckoned with."""

    def __add__(cls, _):
        raise TheirPython(f"calls vLLM's Python: {cls.__name__}")

    def __call__(cls, *_, **__):
        raise TheirPython(f"calls vLLM's Python: {cls.__name__}")

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return stub(f"{cls.__name__}.{name}")


def stub(name):
    return Stub(name, (Exception,), {})


def tokenizer(*_, **__):
    """SmolLM2's: what its GGUF file says as "gpt2", with "smollm" as pieces of text."""
    import gguf
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    fields = gguf.GGUFReader(MODEL).fields
    read = lambda name: fields[f"tokenizer.ggml.{name}"].contents()
    words = read("tokens")
    merges = [tuple(merge.split(" ")) for merge in read("merges")]
    made = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, merges))
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False)])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(word, special=True, normalized=False) for word, kind in zip(words, read("token_type"))
                             if kind == 3])
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token=words[read("eos_token_id")])


class Hub:
    def snapshot_download(self, *_, **__):
        return model.adapter(MODEL, f"{WORK}/adapter")


class Configuration:
    def __init__(self, *_, **__):
        pass

    def get_vocab_size(self):
        return len(tokenizer())


class Bounds:
    def __init__(self, _):
        self.min, self.max = -2**63, 2**63 - 1


KNOWN = {
    "vllm.tokenizers": {"get_tokenizer": tokenizer},
    "vllm.transformers_utils.repo_utils": {"hf_api": Hub},
    "vllm.config": {"ModelConfig": Configuration},
    "torch": {"iinfo": Bounds},
}


class Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return KNOWN.get(self.__name__, {}).get(name) or stub(name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "vllm" or name == "torch":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Module(spec.name)

    def exec_module(self, module):
        pass


def options(arguments):
    found, i = {}, 0
    while i < len(arguments):
        name, _, value = arguments[i].partition("=")
        if value or name in FLAGS or i + 1 == len(arguments):
            found[name] = value or True
            i += 1
        else:
            found[name] = arguments[i + 1]
            i += 2
    return found


def configuration(name, o, folder, port):
    lines = ["[server]", f"listen = 127.0.0.1:{port}", f"served_model_name = {o.get('--served-model-name', name)}",
             "any_model = false", "log_level = info", f"state = {folder}/state",
             f"request_metrics = {str('--enable-per-request-metrics' in o).lower()}"]
    lines += ["[model]", f"path = {MODEL}"]
    if "--tool-call-parser" in o or "--reasoning-parser" in o:
        thinks = "--reasoning-parser" in o
        lines += [f"tool_format = {o.get('--tool-call-parser', 'auto')}",
                  f"chat_template = {os.path.dirname(__file__)}/template.jinja",
                  f"reasoning_format = {'think' if thinks else 'none'}",
                  'template_variables = {"thinks": %s}' % str(thinks).lower()]
    lines += ["[engine]", "threads = 2", "pin = false", f"max_context = {min(ROOM, int(o.get('--max-model-len', ROOM)))}",
              f"max_sequences = {min(16, int(o.get('--max-num-seqs', 16)))}", "[cache]", "device_memory = 1GiB", "host_memory = 0"]
    if "--lora-modules" in o:
        lines += ["[lora]", o["--lora-modules"].replace("=", " = ", 1)]
    return "\n".join(lines) + "\n"


class RemoteOpenAIServer:
    DUMMY_API_KEY = "token-abc123"

    def __init__(self, name, vllm_serve_args, **_):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.host = "127.0.0.1"
        folder = tempfile.mkdtemp(prefix="run-", dir=WORK)
        with open(f"{folder}/llmserve.ini", "w", encoding="utf-8") as file:
            file.write(configuration(name, options(vllm_serve_args), folder, self.port))
        self.log = open(f"{folder}/log", "wb")
        self.process = subprocess.Popen([os.environ["LLMSERVE"], "-c", file.name], stdout=self.log, stderr=self.log)
        for _ in range(600):
            if self.process.poll() is not None:
                raise RuntimeError(open(f"{folder}/log", encoding="utf-8").read()[-2000:])
            with contextlib.suppress(OSError), urllib.request.urlopen(self.url_for("health")):
                return
            time.sleep(.1)
        raise TimeoutError("llmserve does not answer")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()

    @property
    def url_root(self):
        return f"http://{self.host}:{self.port}"

    def url_for(self, *parts):
        return self.url_root + "/" + "/".join(parts)

    def get_client(self, **more):
        import openai
        return openai.OpenAI(base_url=self.url_for("v1"), api_key=self.DUMMY_API_KEY, max_retries=0, **{"timeout": 600, **more})

    def get_async_client(self, **more):
        import openai
        return openai.AsyncOpenAI(base_url=self.url_for("v1"), api_key=self.DUMMY_API_KEY, max_retries=0,
                                  **{"timeout": 600, **more})

    def get_async_client_anthropic(self, **more):
        import anthropic
        return anthropic.AsyncAnthropic(base_url=self.url_root, api_key=self.DUMMY_API_KEY, max_retries=0,
                                        **{"timeout": 600, **more})


utils = types.ModuleType("tests.utils")
utils.RemoteOpenAIServer = RemoteOpenAIServer
utils.ROCM_EXTRA_ARGS = []
sys.modules["tests.utils"] = utils
sys.meta_path.insert(0, Finder())
