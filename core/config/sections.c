/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core's own keys. A new key takes an entry here, a member in config.h (or in
 * limits.h, if another folder uses it unchanged), and the code that uses it: reading,
 * checking, --help-config and the man page come from the table.
 *
 * A section's struct begins with its part in limits.h, so that an offset in the part is
 * one in the section.
 */
#include "core/config/config.h"
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
                     "address and port to serve HTTP on, [v6]:port for IPv6; port 0 "
                     "takes any free one"),
    LLS_PARAM_DURATION(server, drain_timeout, "30s", 0, 3600e9,
                       "how long running requests may go on after SIGTERM",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(http, max_connections, "16384", 1, 1 << 20, "connections",
                  "most connections open at once", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(api, max_choices, "128", 1, 4096, "answers",
                  "most answers one request may ask for: its prompts times n",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(http, max_header, "32KiB", 1024, 1 << 24,
                    "largest request line and headers", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(http, max_body, "16MiB", 1024, 1 << 30, "largest body of a request",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(http, max_bodies, "256MiB", 65536, 1ll << 40,
                    "most bytes of requests held at once, each from its first byte until "
                    "it is read whole, and as many of answers that clients have not yet "
                    "taken: beyond it requests are answered with 503, clients that do "
                    "not read disconnected; a fifth more is for bodies up to 64 KiB",
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
    LLS_PARAM_DURATION(api, keep_alive, "15s", 0, 3600e9,
                       "a stream silent for so long gets a comment, so that proxies keep "
                       "it open; 0 is never (vllm bench cannot read comments)",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_PATH(server, api_keys, "",
                   "file of the API keys that may ask, one a line, each with its tenant "
                   "after a space; a key without one is a tenant of its own; empty: "
                   "every client may ask, and read "
                   "/metrics, which otherwise wants a key from other machines",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(
        api, allowed_origins, "",
        "origins whose web pages may ask, such as https://chat.example.org or "
        "http://localhost:* (every port), with spaces between, * for any (CORS); "
        "empty: none, so that no web page can use the API through a visitor's browser",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(api, any_model, "auto", "auto|false|true",
                     "accept requests that name a different model, as llama.cpp does, "
                     "instead of refusing them with 404; auto is true without api_keys",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(api, strict_params, "false",
                   "refuse requests with parameters that are unknown here, instead of "
                   "ignoring these",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(api, escape_special_tokens, "true",
                   "names of special tokens, such as <|im_end|>, in the content of users "
                   "and tools are plain text; false: they are these tokens, so that "
                   "what a user writes can end its message and begin another one",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(api, metrics_legacy, "false",
                   "/metrics also has series under the names that vLLM gave up and old "
                   "dashboards still read",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(api, metrics_llamacpp, "false",
                   "/metrics also has the series of llama.cpp's server",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(api, console, "true",
                   "/console is a page for browsers that shows what the server does; "
                   "it asks for what it shows as any client",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(server, log_level, "info", "error|warning|info|debug",
                     "least important lines that are logged",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(server, log_format, "text", "text|json",
                     "log lines for people, or JSON objects for programs",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_PATH(server, decisions, "",
                   "file that all arrivals and plans are written to, for llmserve-sim "
                   "--replay; those of the last 9 starts are kept as FILE.1 to "
                   "FILE.9; empty: nothing is recorded"),
    LLS_PARAM_DURATION(server, history, "10min", 0, 86400e9,
                       "how far back it is kept, for llmserve-whatif, when requests came "
                       "and how long they were: no texts, and no more than 16384 "
                       "requests; 0 is never"),
    LLS_PARAM_BOOL(server, autopilot, "false",
                   "each time [server] history has passed, llmserve-whatif simulates it "
                   "with autopilot_policies, and one that was best three times in a row "
                   "takes over, or goes again if it serves worse; the file is not "
                   "touched, and SIGHUP makes it count again",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(server, autopilot_policies, "",
                     "the configurations it may choose from, with commas between, as "
                     "--policies of llmserve-whatif has them: apt+hybrid, "
                     "sarathi:chunk=256",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(server, autopilot_objective, "auto",
                     "what the best is best in, as --objective of llmserve-whatif",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(server, served_model_name, "",
                     "name of the model for clients; the name of its folder if empty"),
    LLS_PARAM_DURATION(server, watchdog, "30s", 0, 86400e9,
                       "a plugin's callback that has not returned for so long is logged, "
                       "and until it returns /live and /health answer 503; a reload "
                       "that waits for one is refused; 0 is never",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_PATH(server, admin_keys, "",
                   "file of the API keys that may use /admin, as api_keys; empty: "
                   "clients on this machine may, with one of api_keys if there are such, "
                   "where listen is a loopback address and this is no pod; else nobody "
                   "but through admin_socket",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_PATH(server, admin_socket, "",
                   "Unix socket for llmserve-ctl, such as /run/llmserve/admin.sock, made "
                   "for its owner alone (0600): who can open it is an admin without a "
                   "key; empty: there is none"),
    LLS_PARAM_STRING(api, allowed_hosts, "",
                     "names of this server that requests may be for, such as "
                     "llm.example.org, with spaces between, * for any; empty: all from "
                     "other machines, and from this one localhost, addresses and names "
                     "without a dot, so that no page of the web passes for ours",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(api, access_log, "refused", "off|refused|all",
                     "requests that have a line in the log: those that are refused "
                     "before a model is asked, and POSTs to /admin; all: others too",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_PATH(server, state, "",
                   "folder of what outlives the server: files and batches (/v1/files, "
                   "/v1/batches), which go on at the next start, and responses "
                   "(/v1/responses); of one server alone; "
                   "empty: there are none"),
    LLS_PARAM_STRING(server, replica, "",
                     "this server's name among replicas: letters and digits, 16 at most. "
                     "The ids of its responses, files and batches begin with it "
                     "(resp_NAME-...), so that a proxy finds who has them, and each "
                     "answer names it (x-llmserve-replica); empty: neither"),
    LLS_PARAM_CHOICE(
        server, sandbox, "auto", "auto|off|on",
        "give up what serving does not need: writing anywhere but where "
        "this file says, other programs, new sockets (Landlock), and system "
        "calls that no server makes (seccomp); auto: what the kernel has of "
        "it, not beside a GPU; on: all of it, or no start, no program at all "
        "(so no /admin/whatif), and nothing is read but the folders of what "
        "is named here, where a reload finds its files too"),
    LLS_PARAM_BYTES(api, max_upload, "512MiB", 1024, 1099511627776,
                    "largest file that can be uploaded", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(
        api, batch_requests, "auto", 1, 1 << 20, "requests",
        "most lines of batches that run at once, as best_effort requests; auto "
        "is half of [engine] max_sequences, so that the other half is there for "
        "clients under any scheduler",
        .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_AUTO),
    LLS_PARAM_INT(api, max_inputs, "2048", 1, 1 << 16, "texts",
                  "most texts of one request to /v1/embeddings, /v1/rerank or /v1/score",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(api, stored_responses, "1GiB", 0, 1099511627776,
                    "room in [server] state for answers of /v1/responses and what was "
                    "asked, which are kept for 30 days so that others can go on from "
                    "them; the oldest give way; 0: none is stored",
                    .flags = LLS_PARAM_RELOADABLE),
};

typedef struct lls_model_section model;
static const struct lls_param model_params[] = {
    LLS_PARAM_PATH(
        model, path, NULL,
        "folder of the model as Hugging Face lays it out, with config.json, or a "
        ".gguf file; of a split set the first",
        .flags = LLS_PARAM_REQUIRED),
    LLS_PARAM_CHOICE(model, load_format, "auto", "auto|dummy",
                     "auto reads the weights; dummy makes random ones of the shape in "
                     "config.json, for benchmarks"),
    LLS_PARAM_CHOICE(
        model, weights, "auto", "auto|f32|bf16|int8|int4",
        "numbers the weights are kept in; auto is the model's own where the "
        "device multiplies it well; int8 and int4 have a scale for 32 numbers, "
        "and the CPU rounds activations to 8 bits: for models in 16 bits or more"),
    LLS_PARAM_PATH(model, chat_template, "",
                   "file of a Jinja template that turns the messages of a chat into the "
                   "prompt, in place of the model's own; empty: the model's own"),
    LLS_PARAM_STRING(
        model, tool_format, "auto",
        "how the model writes calls of tools: hermes, llama3_json, mistral, harmony and "
        "others (a wrong name lists them); auto is as its chat template shows"),
    LLS_PARAM_STRING(
        model, reasoning_format, "auto",
        "marks around what the model thinks before it answers, which is reported as "
        "reasoning_content: think, mistral, command or seed; auto is as its chat "
        "template shows, none leaves it in the content"),
    LLS_PARAM_CHOICE(model, pooling, "auto", "auto|none|last|mean|cls",
                     "what makes one vector of a text's tokens, for /v1/embeddings: the "
                     "last token's, the mean of all, or, of an encoder, the first "
                     "one's; auto is what 1_Pooling in the model's folder says, else "
                     "last, of an encoder mean; none refuses such requests"),
};

typedef struct lls_engine_config engine;
static const struct lls_param engine_params[] = {
    LLS_PARAM_CHOICE(engine, device, "auto", "auto|cpu|cuda",
                     "device that computes; auto is a GPU where there is one"),
    LLS_PARAM_INT(
        engine, tensor_parallel_size, "auto", 1, LLS_MAX_RANKS, "ranks",
        "ranks that share the model, each with a device, a shard of the weights "
        "and one of the cache; auto is as many as mpirun has started, else 1",
        .flags = LLS_PARAM_AUTO),
    LLS_PARAM_CHOICE(engine, ranks, "auto", "auto|threads|mpi",
                     "how ranks run: threads of this process, or processes that mpirun "
                     "or srun has started; auto is processes where there are any"),
    LLS_PARAM_DURATION(engine, rank_timeout, "1min", 1e6, 86400e9,
                       "longest wait for another rank in the middle of a step; then all "
                       "end"),
    LLS_PARAM_CHOICE(
        engine, blocks_by, "auto", "auto|nccl|gpu_mpi|host",
        "how blocks of requests go from a GPU to instances in other processes: nccl, "
        "from GPU to GPU, between any two that are not the same one, else as host; "
        "gpu_mpi, by an MPI that takes the GPU's memory; host, by MPI in pinned host "
        "memory; auto is nccl where two can, else gpu_mpi where the MPI says that it "
        "takes it (MPIX_Query_cuda_support), else host"),
    LLS_PARAM_INT(engine, instances, "auto", 1, LLS_MAX_INSTANCES, "instances",
                  "engines that serve the model side by side, each with a step loop, "
                  "policies and a cache of its own, on a GPU of its own where there is "
                  "one; auto is one for each of the roles, else 1",
                  .flags = LLS_PARAM_AUTO),
    LLS_PARAM_STRING(engine, roles, "",
                     "what each instance does, as in 'prefill, decode, decode': mixed, "
                     "prefill (takes requests, which a scheduler like distserve hands "
                     "over) or decode (gets them); empty: all are mixed"),
    LLS_PARAM_STRING(engine, gpus, "",
                     "which GPU each instance has, counted from 0, as in '0, 1'; empty: "
                     "each the next"),
    LLS_PARAM_INT(
        engine, threads, "0", 0, 1024, "threads",
        "threads that compute, of each rank or instance; 0 is one per core this "
        "process may use, and no more than its control group has the time of (a "
        "container's CPU limit), shared out to these"),
    LLS_PARAM_BOOL(engine, pin, "true", "keep each thread on a core of its own"),
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
                  "most requests alive at once, as many as max_connections: those that "
                  "can't run yet wait; further ones are answered with 429"),
    LLS_PARAM_INT(engine, seed, "0", 0, 9e15, "",
                  "seed of everything random for which a request sets none"),
    LLS_PARAM_STRING(engine, profile, "",
                     "for llmserve-whatif: what the device can do, as a file of "
                     "llmserve-profile or the name of one that ships; empty: measured "
                     "for 20 seconds when somebody asks and the server is idle, and kept "
                     "while the steps that it runs are like it; else learnt from these",
                     .flags = LLS_PARAM_RELOADABLE),
};

typedef struct lls_cache_config cache;
typedef struct lls_pool_limits pool;
BEGINS_WITH(cache, pool);
static const struct lls_param cache_params[] = {
    LLS_PARAM_INT(cache, block_tokens, "16", 1, 256, "tokens", "tokens of one block"),
    LLS_PARAM_BYTES(
        cache, device_memory, "auto", 1 << 16, 1125899906842624,
        "memory for cached tokens, of each rank and instance; auto is what max_sequences "
        "sequences may hold (the context, or where every layer has a sliding window and "
        "the cache gives back what is before it, that window and a step's tokens), at "
        "most half of what is left after the weights; a GPU has gpu_memory_utilization",
        .flags = LLS_PARAM_AUTO),
    LLS_PARAM_FLOAT(pool, gpu_memory_utilization, "0.9", 0.05, 1, "",
                    "how much of a GPU's memory is used, weights and working space "
                    "included; what they leave of it is the cache, where "
                    "device_memory is auto"),
    LLS_PARAM_BYTES(
        pool, host_memory, "0", 0, 1125899906842624,
        "memory for sequences swapped out, of each rank and instance; auto is a quarter "
        "of what the machine (or its control group) has left beside the weights and the "
        "caches in it, at most as much as device_memory; 0 is none",
        .flags = LLS_PARAM_AUTO),
    LLS_PARAM_CHOICE(cache, element, "auto", "auto|f32|bf16",
                     "numbers the cache is kept in; auto is the device's choice"),
    LLS_PARAM_CHOICE(pool, int8, "off", "off|swapped|all",
                     "which full blocks a cache manager that can (tiered) keeps in int8, "
                     "half of bf16: none, those on the host, or all"),
    LLS_PARAM_PATH(cache, measurements, "",
                   "folder that keeps the measured cost of hidden form for the next "
                   "start (measuring takes 30 s at most, where a cache offers it); "
                   "empty: the state folder "
                   "that systemd gives to a service, else nothing is kept"),
    LLS_PARAM_CHOICE(cache, measure, "once", "once|always",
                     "when that cost is measured: once for each device, model and "
                     "settings of the engine, or at every start"),
    LLS_PARAM_BYTES(
        cache, kept_prompts, "0", 0, 1125899906842624,
        "room in [server] state for the beginnings of prompts that are in the "
        "cache when the server ends, so that the next one of the same model "
        "and settings need not compute them; of each instance; 0: nothing is "
        "kept"),
    LLS_PARAM_CHOICE(
        cache, isolate, "auto", "auto|tenant|none",
        "between whom prefixes are never shared: tenant: a prompt is found in the cache "
        "by "
        "its own tenant alone, so that nobody can guess another's prompts by what is "
        "cached; none: by all; auto: tenant where there are api_keys. A request's "
        "cache_salt divides further"),
};

typedef struct lls_plugins_config plugins;
typedef struct lls_loop_limits loop;
BEGINS_WITH(plugins, loop);
static const struct lls_param plugins_params[] = {
    LLS_PARAM_STRING(
        plugins, scheduler, "fcfs",
        "which requests run next: a name that --list-plugins shows, or the path of a .so",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(plugins, cache, "paged", "where cached tokens lie: name or path",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(plugins, predictor, "none",
                     "predicts the length of answers: name or path",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(
        plugins, scheduler_sha256, "",
        "what sha256sum prints of the scheduler's file: any other is refused "
        "before anything in it runs, at the start and by a reload; sections of "
        "other schedulers are then not checked, which would open them; empty: "
        "any file",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(plugins, cache_sha256, "", "likewise of the cache manager's file",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_STRING(plugins, predictor_sha256, "", "likewise of the predictor's file",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(loop, plan_budget, "0", 0, 60e9,
                       "longest time the scheduler may take for a plan; 0 is no limit",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(loop, strikes, "10", 1, 1000000, "plans",
                  "number of bad or late plans after which the built-in order takes over",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(
        loop, mask_work, "30000", 0, 1000000000, "units",
        "most work that a step does for answers that keep to grammars, all together, a "
        "unit being some 10 ns, and beside others no more than a fourth of a step's "
        "time; who needs more draws in a later step; 0 is no limit",
        .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_BOOL(loop, jump_ahead, "true",
                   "tokens that alone can follow in an answer's grammar are computed as "
                   "one chunk, not drawn one by one",
                   .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
};

typedef struct lls_tenant_limits tenants;
static const struct lls_param tenants_params[] = {
    LLS_PARAM_INT(tenants, requests_per_minute, "0", 0, 1000000000, "requests",
                  "most requests that one tenant may begin in a minute, 0 is no limit; "
                  "further ones are answered with 429 and Retry-After",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(
        tenants, tokens_per_minute, "0", 0, 1000000000000, "tokens",
        "most tokens of prompts and answers in a minute, 0 is no limit; counted "
        "as they are computed, lines of batches too, which wait",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(tenants, requests_at_once, "0", 0, 1000000000, "requests",
                  "most requests of one tenant that are not yet answered, 0 is no limit",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(
        tenants, file_bytes, "0", 0, 1ll << 50,
        "most bytes of one tenant's files, 0 is no limit; a further upload is "
        "answered with 413",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BYTES(tenants, response_bytes, "0", 0, 1ll << 50,
                    "most bytes of one tenant's stored responses, whose oldest go first; "
                    "0 is no limit but [server] stored_responses",
                    .flags = LLS_PARAM_RELOADABLE),
};

const struct lls_section lls_sections[] = {
    {"server", "the HTTP side", TABLE(server_params, server),
     offsetof(struct lls_config, server)},
    {"model", "what is served", TABLE(model_params, model),
     offsetof(struct lls_config, model)},
    {"engine", "what computes, and its limits", TABLE(engine_params, engine),
     offsetof(struct lls_config, engine)},
    {"cache", "the memory of running sequences", TABLE(cache_params, cache),
     offsetof(struct lls_config, cache)},
    {"plugins",
     "the policies; each has its own section [scheduler.NAME], [cache.NAME] or "
     "[predictor.NAME]",
     TABLE(plugins_params, plugins), offsetof(struct lls_config, plugins)},
    {"tenants",
     "limits of each tenant, which an API key names; what is different for one of them "
     "stands in a section [tenant.NAME] with the same keys",
     TABLE(tenants_params, tenants), offsetof(struct lls_config, tenants)},
    {.name = NULL},
};
