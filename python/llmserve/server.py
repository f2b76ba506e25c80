# SPDX-License-Identifier: Apache-2.0
"""A llmserve process as an object."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from . import policies, programs

LISTENING = re.compile(r"listening on (http://\S+)")
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # http_proxy is for other hosts


class ServerError(Exception):
    """The server did not start, has ended, or refused a request."""


class Server:
    """A server of one model, for a with statement.

    model: a folder, a .gguf file or a name of Hugging Face; None: the wheel's demo model.
    scheduler, cache, predictor, drafter: names or paths of plugins.
    config: an llmserve.ini; what the arguments say counts before it.
    settings: others, {"section.key": value}, such as {"engine.threads": 4, "scheduler.worth.gap": "100ms"}.
    start_timeout: seconds until the server must answer.
    """

    def __init__(
        self,
        model=None,
        *,
        port=0,
        scheduler=None,
        cache=None,
        predictor=None,
        drafter=None,
        config=None,
        settings=None,
        start_timeout=300,
    ):
        chosen = dict(scheduler=scheduler, cache=cache, predictor=predictor, drafter=drafter)
        values = {f"plugins.{kind}": name for kind, name in chosen.items() if name is not None}
        values["server.listen"] = f"127.0.0.1:{port}"
        values.update(settings or {})
        model = model or (None if config else programs.demo_model())
        self._command = [programs.path("llmserve")]
        self._command += ["-c", os.fspath(config)] if config else []
        self._command += [os.fspath(model)] if model else []
        self._command += policies.arguments(values)
        self._start_timeout = start_timeout
        self._process = None
        self._log = None
        self.url = None

    # ---- the process

    def start(self):
        """Starts the server, and returns it when it answers. Raises ServerError with the end of its log."""
        self._log = tempfile.TemporaryFile(mode="w+")
        self._process = subprocess.Popen(
            self._command,
            env=programs.environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        try:
            self._await()
        except BaseException:  # such as an interrupt: __exit__ is not called
            self.stop()
            raise
        return self

    def _await(self):
        deadline = time.monotonic() + self._start_timeout
        while self.url is None:
            found = LISTENING.search(self.log())
            if found:
                self.url = found.group(1)
            elif self._process.poll() is not None:
                self._fail(f"llmserve ended with status {self._process.returncode}")
            elif time.monotonic() > deadline:
                self._fail(f"llmserve does not answer after {self._start_timeout} s")
            else:
                time.sleep(0.02)

    def _fail(self, why):
        log = self.log()[-2000:]
        self.stop()
        raise ServerError(f"{why}:\n{log}")

    def log(self):
        """Returns what the server wrote to its log so far."""
        if self._log is None:
            return ""
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")

    def stop(self, timeout=60):
        """Lets running requests end, at most [server] drain_timeout, and ends the server."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._log is not None:
            self._log.close()
        self._process = self._log = self.url = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    # ---- requests

    def request(self, method, path, body=None):
        """Returns an answer's JSON, or its text if it is none. Raises ServerError for a status from 400."""
        if self.url is None:
            raise ServerError("the server does not run")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with DIRECT.open(request) as answer:
                text, kind = answer.read().decode(), answer.headers.get_content_type()
        except urllib.error.HTTPError as error:
            raise ServerError(f"{method} {path}: {error.code}: {error.read().decode(errors='replace')}") from None
        except urllib.error.URLError as error:
            raise ServerError(f"{method} {path}: {error.reason}") from None
        return json.loads(text) if kind == "application/json" else text

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, body):
        return self.request("POST", path, body)

    def chat(self, prompt, **parameters):
        """Returns the answer's text to one message, or to a list of messages."""
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        answer = self.post("/v1/chat/completions", {"messages": messages, **parameters})
        return answer["choices"][0]["message"]["content"]

    def complete(self, prompt, **parameters):
        """Returns the text that the model writes after the prompt."""
        return self.post("/v1/completions", {"prompt": prompt, **parameters})["choices"][0]["text"]

    def reload(self, choice=None, **values):
        """Changes policies while requests run: reload("sarathi:chunk=256"), or settings by "section.key"."""
        settings = {**(policies.settings(choice) if choice else {}), **values}
        sections = {}
        for name, value in settings.items():
            section, _, key = name.rpartition(".")
            sections.setdefault(section, {})[key] = policies.text(value)
        return self.post("/admin/reload", {"set": sections})

    def status(self):
        return self.get("/admin/status")

    def metrics(self):
        """Returns /metrics as {'series{label="..."}': value}."""
        result = {}
        for line in self.get("/metrics").splitlines():
            name, _, value = line.rpartition(" ")
            if name and not line.startswith("#"):
                result[name] = float(value)
        return result
