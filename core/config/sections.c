/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core's own keys. A new key takes an entry here, a member in config.h (or in
 * limits.h, if another folder uses it unchanged), and the code that uses it: reading,
 * checking, --help-config and the man page come from the table.
 *
 * A section's struct begins with its part in limits.h, so that an offset in the part is
 * one in the section.
 */
#include "core/config/cluster_params.h"
#include "core/config/config.h"
#include "core/config/loading.h"
#include "core/config/instance_list.h"
#include "core/device/isa.h"
#include "core/ranks/ranks.h"

#define TABLE(PARAMS, STRUCT)                                                            \
  {                                                                                      \
    .params = PARAMS, .n = sizeof PARAMS / sizeof *PARAMS, .size = sizeof(STRUCT)        \
  }

#define BEGINS_WITH(STRUCT, PART)                                                        \
  _Static_assert(offsetof(STRUCT, PART) == 0, #STRUCT " begins with " #PART)

typedef struct lls_server_config server;
typedef struct lls_api_limits api;
typedef struct lls_http_limits http;
BEGINS_WITH(server, api);
BEGINS_WITH(api, http);
static const struct lls_param server_params[] = {
    LLS_PARAM_STRING(server, listen, "127.0.0.1:8080",
                     "addresses to serve HTTP on, with commas between or each in a line "
                     "of its own: ADDRESS:PORT ([v6]:PORT for IPv6; port 0 takes any "
                     "free one), or unix:/PATH or unix:/PATH:MODE for a Unix socket, "
                     "whose file has the mode 0660 unless MODE says otherwise; not used "
                     "if systemd passes sockets on (etc/llmserve.socket)"),
    LLS_PARAM_DURATION(server, drain_timeout, "30s", 0, 3600e9,
                       "how long running requests may continue after SIGTERM",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(http, max_connections, "16384", 1, 1 << 20, "connections",
                  "most connections open at once", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(api, max_choices, "128", 1, 4096, "answers",
                  "most answers to one request: its prompts times n",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(http, max_header, "32KiB", 1024, 1 << 24,
                    "largest request line and headers", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(http, max_body, "16MiB", 1024, 1 << 30, "largest body of a request",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(http, max_bodies, "256MiB", 65536, 1ll << 40,
                    "most bytes of unfinished requests in memory, and as many of answers "
                    "that clients have not yet taken; beyond it requests are answered "
                    "with 503, and clients that do not read are disconnected; a fifth "
                    "more is reserved for bodies up to 64 KiB",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(http, max_unsent, "1MiB", 4096, 1 << 30,
                    "unread output buffered for a slow client before it is disconnected",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(http, idle_timeout, "2min", 1e6, 86400e9,
                       "how long an idle connection is kept open",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(http, read_timeout, "1min", 1e6, 86400e9,
                       "longest time from a request's first byte to its last",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(http, write_timeout, "1min", 1e6, 86400e9,
                       "how long a client may read nothing before it is disconnected",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(
        api, request_timeout, "0", 0, 86400e9,
        "longest time from a request's arrival to the end of its answer; 0 is no limit",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(
        api, keep_alive, "15s", 0, 3600e9,
        "a stream that was silent for this long gets a comment, so that proxies keep it "
        "open; 0 is never (vllm bench cannot read comments)",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_PATH(server, api_keys, "",
                   "file of the API keys of clients, one a line, each with its tenant "
                   "after a space; a key without one is a tenant of its own; empty: no "
                   "client needs a key, except to read /metrics from another machine",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(
        api, allowed_origins, "",
        "origins whose web pages may use the API, such as https://chat.example.org or "
        "http://localhost:* (every port), separated by spaces, * for any (CORS); empty: "
        "none, so that no web page can use the API through a visitor's browser",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(
        api, any_model, "auto", "auto|false|true",
        "accept requests that name a different model, as llama.cpp does, "
        "instead of refusing them with 404; auto is true without api_keys and "
        "[lora]",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(api, strict_params, "false",
                   "refuse requests with parameters that are unknown here, instead of "
                   "ignoring these",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(api, cut_max_tokens, "false",
                   "a max_tokens that is more than the context has room for is cut to "
                   "that room, instead of refused; llama.cpp's and Ollama's own paths "
                   "always cut",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(
        api, request_metrics, "false",
        "answers of chats and completions have \"metrics\", the times of their "
        "request (vLLM's --enable-per-request-metrics); in a stream its last "
        "chunk, with include_usage",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(api, trust_chat_template, "false",
                   "requests may bring a chat_template, a Jinja program that the server "
                   "runs within the limits of the model's own template (vLLM's "
                   "--trust-request-chat-template)",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(api, escape_special_tokens, "true",
                   "names of special tokens, such as <|im_end|>, in the content of users "
                   "and tools are plain text; false: they are these tokens, so that a "
                   "user's text can end the message and begin another one",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(api, metrics_legacy, "false",
                   "/metrics also has the series under names that vLLM no longer uses, "
                   "for old dashboards",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(api, metrics_llamacpp, "false",
                   "/metrics also has the series of llama.cpp's server",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(
        api, llamacpp, "false",
        "where llama-server's answers differ from OpenAI's on the same paths, "
        "give llama-server's: /completions is its /completion, a chat continues "
        "a last message of the assistant, errors have its types"),
    LLS_PARAM_STRING(api, closed_paths, "",
                     "paths such as /slots or /metrics that nobody may use, separated by "
                     "spaces: their requests get a 501",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(api, console, "true",
                   "/console is a page for browsers that shows what the server does; it "
                   "fetches its data like any other client",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(server, log_level, "info", "error|warning|info|debug",
                     "least important lines that are logged",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(server, log_format, "text", "text|json",
                     "log lines for people, or JSON objects for programs",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_PATH(server, decisions, "",
                   "file to which all arrivals and plans are written, for llmserve-sim "
                   "--replay; those of the last 9 starts are kept as FILE.1 to FILE.9; "
                   "empty: nothing is recorded"),
    LLS_PARAM_DURATION(
        server, history, "10min", 0, 86400e9,
        "time span of the kept traffic, for llmserve-whatif: arrival times and lengths "
        "of requests, no texts, at most 16384 requests; 0 is never"),
    LLS_PARAM_BOOL(server, autopilot, "false",
                   "llmserve-whatif simulates the traffic of [server] history with "
                   "autopilot_policies, each time this span has passed; a configuration "
                   "that was best three times in a row is installed, and removed if it "
                   "serves worse; the file stays as it is, and SIGHUP returns to it",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(
        server, autopilot_policies, "",
        "the configurations that the autopilot may choose from, separated by commas, in "
        "the syntax of llmserve-whatif --policies: apt+hybrid, sarathi:chunk=256",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(
        server, autopilot_objective, "auto",
        "the metric by which the autopilot compares, as --objective of llmserve-whatif",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(server, served_model_name, "",
                     "name of the model for clients; the name of its folder if empty"),
    LLS_PARAM_DURATION(server, watchdog, "30s", 0, 86400e9,
                       "time after which a plugin's callback that has not returned is "
                       "logged, and /live and /health answer 503 until it returns; a "
                       "reload that waits for one is refused; 0 is never",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_PATH(server, admin_keys, "",
                   "file of the API keys for /admin, in the format of api_keys; empty: "
                   "if listen is a loopback address and this is not a pod, clients on "
                   "this machine may use /admin, with a key of api_keys if there are "
                   "any; otherwise only admin_socket gives access",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_PATH(server, admin_socket, "",
                   "Unix socket for llmserve-ctl, such as /run/llmserve/admin.sock, "
                   "accessible to its owner only (0600): every program that can open it "
                   "is an admin without a key; empty: no socket"),
    LLS_PARAM_STRING(api, allowed_hosts, "",
                     "host names under which this server accepts requests, such as "
                     "llm.example.org, separated by spaces, * for any; empty: any name "
                     "from other machines; from this one localhost, addresses and names "
                     "without a dot, so that no web page can pose as this server's own",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(api, access_log, "refused", "off|refused|all",
                     "requests that are logged with a line: refused ones that reached no "
                     "model, and POSTs to /admin; all: the others too",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_PATH(
        server, state, "",
        "folder of all that outlives the server: files and batches (/v1/files, "
        "/v1/batches), which continue at the next start, and responses (/v1/responses); "
        "only one server may use it; empty: these are not available"),
    LLS_PARAM_STRING(
        server, state_database, "",
        "PostgreSQL database of files, batches, responses and what tenants have used, "
        "which replicas share: postgresql://USER@HOST/NAME, best without the password "
        "(?passfile=FILE, or PGPASSWORD in the environment); empty: a file of SQLite in "
        "state"),
    LLS_PARAM_PATH(server, state_files, "",
                   "folder of the contents of files, which replicas with one "
                   "state_database share; empty: in state"),
    LLS_PARAM_STRING(server, replica, "",
                     "name of this server among replicas: letters and digits, 16 at "
                     "most. The ids of its responses, files and batches begin with it "
                     "(resp_NAME-...), so that a proxy can route requests for them, and "
                     "each answer names it (x-llmserve-replica); empty: neither"),
    LLS_PARAM_STRING(
        server, kv_events, "",
        "publishes which blocks of prefixes are cached here: an endpoint of ZeroMQ, such "
        "as tcp://*:5557, for vLLM's messages (KVEventBatch), beside GET "
        "/admin/kv_events; "
        "stream: only the latter; empty: neither. Readers see the tokens of prompts"),
    LLS_PARAM_STRING(server, kv_events_replay, "",
                     "endpoint of ZeroMQ where readers get the last batches of "
                     "kv_events again (vLLM's replay_endpoint); empty: none"),
    LLS_PARAM_STRING(server, kv_events_topic, "",
                     "topic of kv_events; llm-d expects kv@ADDRESS:PORT@MODEL"),
    LLS_PARAM_CHOICE(server, kv_events_form, "array", "array|map",
                     "messages as arrays, which all routers read, or maps, as new vLLMs"),
    LLS_PARAM_STRING(
        server, traces, "",
        "URL of a collector of OpenTelemetry, such as http://127.0.0.1:4318, "
        "that gets each request's phases as spans (OTLP in JSON), under the "
        "client's traceparent; empty: none"),
    LLS_PARAM_CHOICE(
        server, sandbox, "auto", "auto|off|on",
        "give up rights that serving does not need: writing outside of the paths in this "
        "file, other programs, new sockets (Landlock), and unused system calls "
        "(seccomp); auto: as far as the kernel can, and not with a GPU; on: all of it, "
        "or the server does not start; no program can run (so no /admin/whatif), and "
        "only the folders of the paths in this file can be read, so a reload must find "
        "its files there"),
    LLS_PARAM_BYTES(api, max_upload, "512MiB", 1024, 1099511627776,
                    "largest file that can be uploaded", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(api, batch_requests, "auto", 1, 1 << 20, "requests",
                  "most lines of batches that run at once, as best_effort requests; auto "
                  "is half of [engine] max_sequences, so that the other half remains for "
                  "clients under any scheduler",
                  .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_AUTO),
    LLS_PARAM_INT(api, max_inputs, "2048", 1, 1 << 16, "texts",
                  "most texts of one request to /v1/embeddings, /v1/rerank or /v1/score",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(api, stored_responses, "1GiB", 0, 1099511627776,
                    "space in [server] state for answers of /v1/responses and their "
                    "inputs, kept for 30 days so that later requests can continue from "
                    "them; the oldest are deleted first; 0: none is stored",
                    .flags = LLS_PARAM_RELOADABLE),
};

typedef struct lls_tls_section tls;
static const struct lls_param tls_params[] = {
    LLS_PARAM_PATH(tls, certificate, "",
                   "file in PEM with the server's certificate and those above it: the "
                   "addresses of [server] listen then speak TLS (https://), but for Unix "
                   "sockets and those that begin with http://; a reload reads the files "
                   "again; empty: no TLS",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_PATH(tls, key, "",
                   "file in PEM with the certificate's private key, without a password; "
                   "empty: it is in the certificate's file",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_PATH(
        tls, client_ca, "",
        "file in PEM with the authorities of clients' certificates: clients "
        "without such a certificate are then refused; empty: clients need none",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(tls, min_version, "1.2", "1.2|1.3", "the oldest version of TLS",
                     .flags = LLS_PARAM_RELOADABLE),
};

typedef struct lls_model_section model;
static const struct lls_param model_params[] = {
    LLS_PARAM_PATH(model, path, NULL,
                   "folder of the model as Hugging Face lays it out, with config.json, "
                   "or a .gguf file, of a split set the first; or OWNER/NAME or "
                   "OWNER/NAME:QUANT, a model of Hugging Face's hub, which llmserve "
                   "fetches at its start",
                   .flags = LLS_PARAM_REQUIRED),
    LLS_PARAM_CHOICE(model, load_format, "auto", "auto|dummy",
                     "auto reads the weights; dummy makes random ones of the shape in "
                     "config.json, for benchmarks"),
    LLS_PARAM_CHOICE(
        model, weights, "auto", "auto|f32|bf16|int8|int4",
        "data type of the weights; auto is the model's own where the device multiplies "
        "it well; int8 and int4 have a scale for 32 values, and the CPU rounds "
        "activations to 8 bits: for models in 16 bits or more"),
    LLS_PARAM_PATH(model, chat_template, "",
                   "file of a Jinja template that turns the messages of a chat into the "
                   "prompt, in place of the model's own; empty: the model's own"),
    LLS_PARAM_STRING(model, template_variables, "",
                     "a JSON object of variables for the chat template, such as "
                     "{\"enable_thinking\": false}, which a request's "
                     "chat_template_kwargs and parameters override"),
    LLS_PARAM_STRING(
        model, tool_format, "auto",
        "syntax of the model's tool calls: hermes, llama3_json, mistral, harmony and "
        "others (a wrong name lists them); auto follows the chat template"),
    LLS_PARAM_STRING(model, reasoning_format, "auto",
                     "marks around the model's reasoning, which is reported as "
                     "reasoning_content: think, mistral, command or seed; auto follows "
                     "the chat template, none leaves it in the content"),
    LLS_PARAM_CHOICE(model, pooling, "auto", "auto|none|last|mean|cls",
                     "pooling of a text's tokens into one vector, for /v1/embeddings: "
                     "the last token's, the mean of all, or, of an encoder, the first "
                     "one's; auto follows 1_Pooling in the model's folder, else it is "
                     "last, or mean for an encoder; none refuses such requests"),
    LLS_PARAM_CHOICE(model, task, "auto", "auto|text|rerank",
                     "text: the model generates; rerank: its yes or no is the score of "
                     "/v1/rerank and /v1/score, as Qwen3-Reranker's; auto follows the "
                     "model's files and name"),
};

typedef struct lls_engine_config engine;
static const struct lls_param engine_params[] = {
    LLS_PARAM_CHOICE(engine, device, "auto", "auto|cpu|cuda",
                     "device that computes; auto is a GPU where there is one"),
    LLS_PARAM_INT(
        engine, tensor_parallel_size, "auto", 1, LLS_MAX_RANKS, "ranks",
        "ranks that share the model, each with a device, a shard of the weights and one "
        "of the cache; auto is the number of processes that mpirun has started, else 1",
        .flags = LLS_PARAM_AUTO),
    LLS_PARAM_CHOICE(engine, ranks, "auto", "auto|threads|mpi",
                     "how ranks run: threads of this process, or processes that mpirun "
                     "or srun has started; auto is processes if there are any"),
    LLS_PARAM_DURATION(
        engine, rank_timeout, "1min", 1e6, 86400e9,
        "longest wait for another rank in the middle of a step; after it all ranks end"),
    LLS_PARAM_CHOICE(
        engine, blocks_by, "auto", "auto|ucx|nccl|gpu_mpi|host",
        "how blocks of requests travel from a GPU to other processes: nccl, from GPU to "
        "GPU, for any two different GPUs; ucx, from GPU memory in a [cluster] if UCX "
        "accepts it; gpu_mpi, by an MPI that does; host, in pinned host memory, which "
        "stands in for the first two; auto is the first that is possible"),
    LLS_PARAM_INT(engine, instances, "auto", 1, LLS_MAX_INSTANCES, "instances",
                  "independent engines that serve the same model, each with its own step "
                  "loop, policies and cache, on its own GPU if there are enough; auto is "
                  "one for each of the roles, else 1",
                  .flags = LLS_PARAM_AUTO),
    LLS_PARAM_STRING(engine, roles, "",
                     "role of each instance, as in 'prefill, decode, decode': mixed, "
                     "prefill (takes requests, which a scheduler like distserve hands "
                     "over) or decode (gets them); empty: all are mixed"),
    LLS_PARAM_STRING(
        engine, gpus, "",
        "GPU of each instance, counted from 0, as in '0, 1'; empty: one after the other"),
    LLS_PARAM_INT(engine, threads, "0", 0, 1024, "threads",
                  "compute threads of each rank or instance; 0 is one per core that this "
                  "process may use, within the CPU limit of its control group (a "
                  "container's), divided among ranks and instances"),
    LLS_PARAM_BOOL(engine, pin, "true", "pin each thread to a core"),
    LLS_PARAM_CHOICE(
        engine, isa, "auto", LLS_ISA_CHOICES,
        "instruction set of the CPU kernels; auto is the best that the CPU has",
        .flags = LLS_PARAM_AUTO),
    LLS_PARAM_INT(engine, max_step_tokens, "2048", 1, 65536, "tokens",
                  "most tokens computed in one step"),
    LLS_PARAM_INT(engine, max_sequences, "64", 1, 4096, "sequences",
                  "most sequences computed in one step"),
    LLS_PARAM_INT(engine, max_context, "0", 0, 1 << 24, "tokens",
                  "longest prompt and answer together; 0 is the model's own limit"),
    LLS_PARAM_INT(engine, max_requests, "16384", 1, 1 << 20, "requests",
                  "most requests that run or wait, by default as many as "
                  "max_connections; further ones are answered with 429"),
    LLS_PARAM_INT(
        engine, seed, "0", 0, 9e15, "",
        "seed of requests that set none, and of dummy weights; 0: requests get a "
        "random one each"),
    LLS_PARAM_STRING(
        engine, profile, "",
        "for llmserve-whatif: the speed of the device, as a file of llmserve-profile or "
        "the name of a profile that ships; empty: measured for 20 seconds when a "
        "simulation is requested and the server is idle, and kept while it agrees with "
        "served steps; else learnt from these",
        .flags = LLS_PARAM_RELOADABLE),
};

typedef struct lls_cache_config cache;
typedef struct lls_pool_limits pool;
BEGINS_WITH(cache, pool);
static const struct lls_param cache_params[] = {
    LLS_PARAM_INT(cache, block_tokens, "16", 1, 256, "tokens", "tokens of one block"),
    LLS_PARAM_BYTES(cache, device_memory, "auto", 1 << 16, 1125899906842624,
                    "memory for cached tokens, of each rank and instance; auto is what "
                    "max_sequences sequences may hold (the whole context, or, if every "
                    "layer has a sliding window and the cache frees the blocks before "
                    "it, that window and a step's tokens), at most half of the memory "
                    "left beside the weights; for a GPU see gpu_memory_utilization",
                    .flags = LLS_PARAM_AUTO),
    LLS_PARAM_FLOAT(pool, gpu_memory_utilization, "0.9", 0.05, 1, "",
                    "fraction of a GPU's memory to use, weights and working space "
                    "included; the cache gets the rest of it, if device_memory is auto"),
    LLS_PARAM_BYTES(
        pool, host_memory, "0", 0, 1125899906842624,
        "memory for sequences swapped out, of each rank and instance; auto is a quarter "
        "of the memory that the machine (or its control group) has left beside the "
        "weights and the caches, at most device_memory; 0 is none",
        .flags = LLS_PARAM_AUTO),
    LLS_PARAM_CHOICE(cache, element, "auto", "auto|f32|bf16",
                     "data type of cached keys and values; auto is the device's choice"),
    LLS_PARAM_CHOICE(pool, int8, "off", "off|swapped|all",
                     "full blocks that are stored in int8, half of bf16, if the cache "
                     "manager can (tiered): none, those on the host, or all"),
    LLS_PARAM_PATH(
        cache, measurements, "",
        "folder that keeps the measured cost of hidden form (30 s at most) for the next "
        "start; empty: the state folder that systemd gives to a service, else none"),
    LLS_PARAM_CHOICE(cache, measure, "once", "once|always",
                     "when that is measured: once for a device, model and settings"),
    LLS_PARAM_BYTES(
        cache, kept_prompts, "0", 0, 1125899906842624,
        "space in [server] state, for each instance, for prefixes that are cached when "
        "the server ends, for the next start with the same model and settings; 0: none"),
    LLS_PARAM_BYTES(
        cache, disk_space, "0", 0, 1125899906842624,
        "space in [server] state, for each instance, for computed blocks, which prompts "
        "find when the cache has them no more, also after a restart; 0: none"),
    LLS_PARAM_CHOICE(cache, disk_element, "as_cached", "as_cached|int8",
                     "form of blocks in disk_space; int8 is half of bf16, but rounds"),
    LLS_PARAM_CHOICE(
        cache, isolate, "auto", "auto|tenant|none",
        "isolation of cached prefixes: tenant: a prompt is found in the cache by its own "
        "tenant alone, so that no tenant can guess another's prompts by their speed; "
        "none: all tenants share; auto: tenant if there are api_keys. A request's "
        "cache_salt divides further"),
    LLS_PARAM_DURATION(
        cache, lease_tool, "60s", 0, 86400e9,
        "how long a session's tokens stay on the device after an answer that calls a "
        "tool, or if it is expected back; 0: like any other's; a scheduler that plans "
        "for sessions decides it instead"),
    LLS_PARAM_DURATION(cache, lease_end, "0", 0, 86400e9,
                       "the same after any other answer of a session"),
    LLS_PARAM_BYTES(
        cache, session_memory, "64MiB", 1024, 1ll << 40,
        "most memory for the names of idle sessions' blocks, 16 bytes a block; beyond it "
        "the oldest session of the largest tenant is forgotten"),
    LLS_PARAM_FLOAT(cache, disk_lease_share, "0.3", 0, 1, "",
                    "part of disk_space that the scheduler may keep for sessions"),
};

typedef struct lls_plugins_config plugins;
typedef struct lls_loop_limits loop;
BEGINS_WITH(plugins, loop);
static const struct lls_param plugins_params[] = {
    LLS_PARAM_STRING(plugins, scheduler, "fcfs",
                     "chooses the requests of the next step: a name that --list-plugins "
                     "shows, or the path of a .so",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(plugins, cache, "paged",
                     "decides where cached tokens are stored: name or path",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(plugins, predictor, "none",
                     "predicts the length of answers: name or path",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(plugins, drafter, "none",
                     "name or path of what guesses answers' next tokens for a step",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(plugins, scheduler_sha256, "",
                     "SHA-256 of the scheduler's file, as sha256sum prints it: any other "
                     "file is refused before its code runs, at the start and by a "
                     "reload; sections of other schedulers are then not checked, since "
                     "this would open their files; empty: any file",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(plugins, cache_sha256, "", "the same for the cache manager's file",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(plugins, predictor_sha256, "", "the same for the predictor's file",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(plugins, drafter_sha256, "", "the same for the drafter's file",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(plugins, max_drafts, "7", 0, LLS_MAX_DRAFTS, "tokens",
                  "most guesses of one answer that a step verifies; schedulers choose"),
    LLS_PARAM_INT(loop, min_drafts, "0", 0, LLS_MAX_DRAFTS, "tokens",
                  "guesses of one answer that a step verifies even if they do not pay",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_PATH(plugins, draft_model, "",
                   "folder or GGUF file of a small model with the same tokens, or folder "
                   "of the model's EAGLE-3 layer, which guesses for the drafters model, "
                   "heads and auto; empty: the model's own layer that guesses (MTP)"),
    LLS_PARAM_BYTES(plugins, draft_cache, "1GiB", 1048576, 1125899906842624,
                    "cache of the draft model, of each instance; answers that find no "
                    "room in it have no guesses of it"),
    LLS_PARAM_DURATION(
        loop, draft_budget, "auto", 0, 60e9,
        "longest time between two steps for all guesses, and the same for the draft "
        "model; more is taken off the next ones; auto is 2 % of the step before, for the "
        "draft model as long as that step; 0 is no limit",
        .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_AUTO),
    LLS_PARAM_DURATION(loop, plan_budget, "0", 0, 60e9,
                       "longest time the scheduler may take for a plan; 0 is no limit",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(loop, strikes, "10", 1, 1000000, "plans",
                  "number of bad or late plans after which the built-in order takes over",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(loop, mask_work, "30000", 0, 1000000000, "units",
                  "most work of a step for the grammars of all answers, in units of some "
                  "10 ns, and at most a fourth of the step's time if other requests run; "
                  "an answer that needs more is continued in a later step; 0 is no limit",
                  .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_BOOL(loop, jump_ahead, "true",
                   "tokens that an answer's grammar leaves no choice for are computed as "
                   "one chunk, not drawn one by one",
                   .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
};

typedef struct lls_lora_section lora;
static const struct lls_param lora_params[] = {
    LLS_PARAM_INT(lora, max_loaded, "16", 1, 100000, "adapters",
                  "most adapters in memory; another one is loaded when a request needs "
                  "it, in place of the one that was not used for longest"),
    LLS_PARAM_BYTES(lora, memory, "0", 0, 1ll << 50,
                    "most memory of the adapters, 0 is no limit"),
    LLS_PARAM_BYTES(lora, device_memory, "1GiB", 0, 1ll << 40,
                    "a GPU's memory for adapters, of each instance and rank; those of a "
                    "step that it is too small for are read from host memory, slowly"),
    LLS_PARAM_BOOL(
        lora, runtime, "false",
        "/v1/load_lora_adapter and /v1/unload_lora_adapter let clients with an "
        "admin key add and remove adapters"),
};

typedef struct lls_models_section models;
static const struct lls_param models_params[] = {
    LLS_PARAM_PATH(models, folder, "",
                   "folder whose models are served, too: each folder in it with a "
                   "config.json, and each .gguf file (of a split set the first), under "
                   "its name; empty: none",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(models, fallback, "", "model of requests that name none",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(models, autoload, "true",
                   "requests load models; false: /models/load and `pinned` alone do",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(models, max_loaded, "0", 0, 1000, "models",
                  "most models loaded at once; a further one takes the place of the idle "
                  "one not used for longest, or waits; 0 is as many as memory allows",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(models, memory, "auto", 1, 1ll << 50,
                    "most host memory of all loaded models, beyond which idle ones are "
                    "unloaded; auto "
                    "is what the machine (or its control group) has available",
                    .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_AUTO),
    LLS_PARAM_DURATION(models, unload_after, "10min", 0, 86400e9 * 365,
                       "a model that was not used for this long is unloaded; 0 is never",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(models, load_timeout, "30min", 1e6, 86400e9,
                       "longest time in which a model is loaded, and fetched before",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(models, only, "",
                     "the name of one of these models: this process serves it alone, as "
                     "the server starts one for each; empty: all of them",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(
        models, copy_of, "",
        "the path of the file that this one is a copy of: paths are relative "
        "to its folder, and messages name it; the server gives the processes "
        "of models a copy",
        .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
};

const struct lls_section lls_sections[] = {
    {"server", "the HTTP side", TABLE(server_params, server),
     offsetof(struct lls_config, server)},
    {"tls", "HTTPS without a proxy", TABLE(tls_params, tls),
     offsetof(struct lls_config, tls)},
    {"model", "what is served", TABLE(model_params, model),
     offsetof(struct lls_config, model)},
    {"engine", "the device, and limits of its steps", TABLE(engine_params, engine),
     offsetof(struct lls_config, engine)},
    LLS_CLUSTER_SECTION,
    {"cache", "the memory of running sequences", TABLE(cache_params, cache),
     offsetof(struct lls_config, cache)},
    {"plugins",
     "the policies; each has its own section [scheduler.NAME], [cache.NAME], "
     "[predictor.NAME] or [drafter.NAME]",
     TABLE(plugins_params, plugins), offsetof(struct lls_config, plugins)},
    {"lora",
     "LoRA adapters of the model: each further key is the name that requests give as "
     "their model, and its value the path of a folder as PEFT saves it, or of a .gguf "
     "file; a reload adds and removes adapters",
     TABLE(lora_params, lora), offsetof(struct lls_config, lora)},
    {"models",
     "several models instead of the one of [model] path, each in a process of its own "
     "that is started at its first use: each further key is a name that requests give "
     "as their model, and its value a path as of [model] path; a section [model.NAME] "
     "has settings of one model: pinned = true (loaded at the start, never unloaded), "
     "unload_after and memory (what it takes) in place of those above, path, and "
     "SECTION.KEY = VALUE for any setting that differs, like plugins.scheduler = sarathi",
     TABLE(models_params, models), offsetof(struct lls_config, models)},
    {"tenants",
     "limits of each tenant, which an API key names; a section [tenant.NAME] has the "
     "same keys, for values that differ for one tenant",
     TABLE(lls_tenants_params, struct lls_tenant_limits),
     offsetof(struct lls_config, tenants)},
    {.name = NULL},
};
