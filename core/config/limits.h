/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of the configuration that other folders use unchanged. A section's struct
 * begins with its part (config.h), and the user keeps a copy of it. A new key takes a
 * member here, an entry in sections.c, and the code that uses it. Types are those of
 * parameters; durations are ns. Texts are borrowed until the user gets new limits.
 */
#ifndef LLS_CONFIG_LIMITS_H
#define LLS_CONFIG_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llmserve/types.h>

#define LLS_NS_PER_MS INT64_C(1000000)

#define LLS_REPLICA_MAX 16 /* characters of [server] replica */

struct lls_http_limits { /* keys of [server] for the HTTP server */
  int64_t max_connections;
  int64_t max_header;   /* bytes of the request line and headers */
  int64_t max_body;     /* bytes, decoded */
  int64_t max_bodies;   /* bytes of all held requests and unread answers together */
  int64_t max_unsent;   /* unread bytes of a streamed answer, above which it is cut off */
  int64_t idle_timeout; /* longest time between two requests of a connection */
  int64_t read_timeout; /* from a request's first byte to its last */
  int64_t write_timeout; /* time in which a client reads no byte of the answer */
};

/* True if requests for other models are answered. AUTO means TRUE if no API key is
 * needed; loading replaces it by TRUE or FALSE. */
enum lls_any_model { LLS_ANY_MODEL_AUTO, LLS_ANY_MODEL_FALSE, LLS_ANY_MODEL_TRUE };

/* Which answers are logged. Answers to generations have log lines of their own. */
enum lls_access_log_choice {
  LLS_ACCESS_LOG_OFF,
  LLS_ACCESS_LOG_REFUSED, /* errors, and administrators' actions */
  LLS_ACCESS_LOG_ALL,
};

struct lls_tenant_limits { /* [tenants]; 0 = no limit */
  int64_t requests_per_minute, tokens_per_minute, requests_at_once;
  int64_t file_bytes, response_bytes;
};

/* A section [tenant.NAME]. */
struct lls_tenant_override {
  const char *name;
  struct lls_tenant_limits limits;
};

struct lls_api_limits { /* keys of [server] for the front end */
  struct lls_http_limits http;
  int64_t max_choices; /* prompts x n of one request; at most [engine] max_requests */
  /* silence of a stream after which a comment is sent; 0 = never */
  int64_t keep_alive;
  int64_t request_timeout;    /* from a request's arrival to its end; 0 = none */
  bool strict_params;         /* unknown parameters are refused */
  bool cut_max_tokens;        /* max_tokens beyond the room are cut to it */
  bool request_metrics;       /* answers have vLLM's times of their request */
  bool trust_chat_template;   /* requests may bring a chat template */
  bool escape_special_tokens; /* core/api/plain_text.h */
  int64_t any_model;          /* enum lls_any_model */
  bool metrics_legacy;        /* /metrics also has the names that vLLM has dropped */
  bool metrics_llamacpp;      /* /metrics also has llama.cpp's names */
  bool console;               /* /console has a page */
  bool llamacpp;              /* OpenAI's paths are as llama-server has them */
  /* Lists separated by spaces; "*" is any; "" or NULL: none. [main] */
  const char *allowed_origins; /* origins whose pages may send requests */
  const char *allowed_hosts;   /* names of this server in addition to this machine's */
  const char *closed_paths;    /* paths whose requests get a 501 */
  int64_t access_log;          /* enum lls_access_log_choice */
  int64_t max_upload;          /* bytes of an uploaded file and its form */
  /* batch lines that run at once; loading replaces LLS_NEVER */
  int64_t batch_requests;
  int64_t max_inputs;       /* texts of a request for vectors; limited like max_choices */
  int64_t stored_responses; /* bytes in the database; 0 = responses are not stored */
  /* Limits of a tenant without a section of its own, and all tenants' sections. [main] */
  struct lls_tenant_limits tenant;
  const struct lls_tenant_override *tenants; /* (n_tenants) borrowed like texts */
  size_t n_tenants;
};

/* The defaults of sections.c, for tests, which load no configuration. */
#define LLS_API_DEFAULT_LIMITS                                                           \
  ((struct lls_api_limits){.http = {.max_connections = 16384,                            \
                                    .max_header = 32 << 10,                              \
                                    .max_body = 16 << 20,                                \
                                    .max_bodies = 256 << 20,                             \
                                    .max_unsent = 1 << 20,                               \
                                    .idle_timeout = 120 * LLS_NS_PER_S,                  \
                                    .read_timeout = 60 * LLS_NS_PER_S,                   \
                                    .write_timeout = 60 * LLS_NS_PER_S},                 \
                           .console = true,                                              \
                           .max_choices = 128,                                           \
                           .stored_responses = 1 << 30,                                  \
                           .max_inputs = 2048,                                           \
                           .keep_alive = 15 * LLS_NS_PER_S,                              \
                           .access_log = LLS_ACCESS_LOG_REFUSED,                         \
                           .max_upload = 512 << 20,                                      \
                           .batch_requests = 32})

/* [cache] lease_tool, lease_end: for how long a session's blocks are kept if no scheduler
 * decides it. */
struct lls_lease_limits {
  int64_t tool_ns;   /* after a call of a tool */
  int64_t end_ns;    /* after any other end; 0: not at all */
  int64_t key_bytes; /* [cache] session_memory; 0: no limit */
  double disk_share; /* [cache] disk_lease_share */
};

/* [cache] isolate: which requests do not share prefixes. AUTO: TENANT if there are
 * keys. */
enum lls_isolate { LLS_ISOLATE_AUTO, LLS_ISOLATE_TENANT, LLS_ISOLATE_NONE };

#define LLS_MAX_DRAFTS 31 /* guesses of one request in a step, at most */

struct lls_loop_limits { /* keys of [plugins] */
  int64_t plan_budget;   /* CPU time of one plan call, 0 = no limit */
  int64_t strikes;       /* bad or late plans before the built-in order takes over */
  int64_t mask_work;     /* work for grammars in a step, 0 = no limit */
  /* tokens that are the only possible continuation are computed as one chunk */
  bool jump_ahead;
  /* time between two steps for the drafter, 0 = no limit, LLS_NEVER = 2 % of the step
   * before */
  int64_t draft_budget;
  int64_t min_drafts; /* guesses of one request that schedulers verify at least */
};

struct lls_pool_limits { /* keys of [cache] */
  /* Used if the pool's size is not set and the device has memory of its own: this
   * fraction of the device's memory is the engine's, weights included, and the pool
   * gets the rest of it (core/engine/memory_profile.c). 0 = the size by
   * core/engine/pool_size.c. */
  double gpu_memory_utilization;
  int64_t host_memory; /* bytes of the host tier, 0 = none, LLS_NEVER = what fits */
  int64_t int8;        /* enum lls_int8: which blocks may be int8 */
};

#endif
