# SPDX-License-Identifier: Apache-2.0
"""OpenVINO GenAI's continuous batching behind HTTP, for one load generator beside other servers.

    openvino_server.py MODEL PORT THREADS

It answers POST /v1/completions whose prompt is a list of tokens, streamed or not, and GET /v1/models.
A token's text is "x": the load generator counts tokens, and OpenVINO's detokenizer takes no time here.
"""
import json
import queue
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import openvino
import openvino_genai.py_openvino_genai as genai


class Engine:
    """One thread takes new requests and steps the pipeline; each request's tokens go to its own queue."""

    def __init__(self, model, threads):
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = 2
        scheduler.max_num_batched_tokens = 512
        scheduler.max_num_seqs = 64
        self.pipeline = genai.ContinuousBatchingPipeline(model, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads})
        self.arrivals = queue.Queue()
        threading.Thread(target=self.work, daemon=True).start()

    def add(self, prompt, answer):
        tokens = queue.Queue()
        self.arrivals.put((prompt, answer, tokens))
        return tokens

    def work(self):
        running, number = [], 0
        while True:
            while not running or not self.arrivals.empty():
                prompt, answer, tokens = self.arrivals.get()
                config = genai.GenerationConfig(max_new_tokens=answer, ignore_eos=True)
                ids = openvino.Tensor(np.array([prompt], np.int64))
                running.append((self.pipeline.add_request(number, ids, config), tokens))
                number += 1
            self.pipeline.step()
            running = [pair for pair in running if self.deliver(*pair)]

    @staticmethod
    def deliver(handle, tokens):
        while handle.can_read():
            for output in handle.read().values():
                tokens.put(len(output.generated_ids))
        if handle.get_status() == genai.GenerationStatus.RUNNING:
            return True
        tokens.put(None)
        return False


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_json({"object": "list", "data": [{"id": "openvino", "object": "model"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tokens = self.server.engine.add(body["prompt"], body.get("max_tokens", 16))
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": 0}
        if body.get("stream"):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
        for count in iter(tokens.get, None):
            usage["completion_tokens"] += count
            if body.get("stream"):
                self.event({"choices": [{"index": 0, "text": "x" * count}]})
        choice = {"index": 0, "text": "", "finish_reason": "length"}
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        if not body.get("stream"):
            self.send_json({"object": "text_completion", "choices": [choice], "usage": usage})
            return
        self.event({"choices": [choice]})
        self.event({"choices": [], "usage": usage})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def event(self, fields):
        self.chunk(b"data: " + json.dumps({"object": "text_completion", **fields}).encode() + b"\n\n")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def send_json(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


server = Server(("127.0.0.1", int(sys.argv[2])), Handler)
server.engine = Engine(sys.argv[1], int(sys.argv[3]))
server.serve_forever()
