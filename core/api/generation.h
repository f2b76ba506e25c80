/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One generation request from its submission to its last event: k prompts times n
 * choices, each a request of the step loop.
 *
 *   choice: LIVE --stop string--> STOPPED (cancelled, awaits FINISHED) --> FINISHED
 *             +---------------event FINISHED---------------------------------^
 *
 * Invariants: the generation is freed when all its choices are FINISHED. exchange
 * becomes NULL when the client has been answered or has disconnected; nothing is
 * written after that. A generation whose client disconnected has cancelled all its
 * choices. A generation without a client, such as a batch line, has `offline` instead
 * of an exchange (offline.h); one whose client fetches the answer later has a `sink`
 * (responses/detached.h).
 */
#ifndef LLS_API_GENERATION_H
#define LLS_API_GENERATION_H

#include "core/api/dialect.h"
#include "core/api/offline.h"
#include "core/lora/lora_set.h"
#include "text/tools/tool_parser.h"

/* Takes the events of a generation instead of an exchange. */
struct lls_answer_sink {
  /* Takes an array of events over, NULL if they were lost for lack of memory. */
  void (*take)(struct lls_answer_sink *sink, json_t *events);
  /* Takes the last events over, of which the last one has the answer. The generation does
   * not have the sink any more. */
  void (*end)(struct lls_answer_sink *sink, json_t *events);
};

enum lls_choice_state { LLS_CHOICE_LIVE, LLS_CHOICE_STOPPED, LLS_CHOICE_FINISHED };

struct lls_choice {
  struct lls_generation *generation;
  struct lls_choice *prev, *next; /* links of api->unflushed, if unflushed */
  bool unflushed;
  enum lls_choice_state state;
  uint32_t index;
  const struct lls_api_prompt *prompt;
  uint64_t request; /* id in the step loop */
  struct lls_detokenizer detokenizer;
  struct lls_text text;        /* streamed: the text not sent yet; else all text */
  size_t ready;                /* bytes of text that can't belong to a stop string */
  uint32_t n_tokens;           /* generated tokens, with those without text */
  uint32_t shared_tokens;      /* cached prompt tokens; UINT32_MAX: not known yet */
  bool keeps_prefix;           /* once it has ended: the cache shares its prompt */
  uint64_t accepted, rejected; /* once it has ended: guesses that steps verified */
  bool reports;                /* the answer lists each token (logprobs, ids) */
  struct lls_sampled *tokens;  /* (n_unreported) not in an answer yet */
  uint32_t n_unreported, token_capacity;
  struct lls_sampled *scores; /* (prompt tokens) prompt logprobs, or NULL */
  float *vector;              /* (config.vector_columns) for pooling; or NULL */
  size_t text_offset;         /* characters of the reported tokens, for logprobs */
  uint32_t n_computed;        /* prompt tokens in the last report of progress */
  bool begun;                 /* streamed: a chunk was sent */
  bool ended;                 /* streamed: the chunk with the finish reason was sent */
  struct lls_tool_parser *parser;            /* splits the text of a chat, or NULL */
  struct lls_tool_answer answer;             /* the parser's result, replaces text */
  uint32_t n_reasoning;                      /* reasoning tokens among n_tokens */
  const char *finish_reason;                 /* static; NULL until it is known */
  const struct lls_stop_string *stop_string; /* matched stop string, or NULL */
  const struct lls_regex_finder *stop_regex; /* matched stop_regex, or NULL */
  struct lls_regex_scan **scans;             /* (params.n_stop_regex), or NULL */
  int32_t stop_token; /* the stop_token_ids token that ended it, or -1 */
  int64_t first_token_ns, last_token_ns; /* times by main's clock; 0: no token yet */
  int64_t longest_gap_ns;                /* longest time between two tokens */
  /* durations by the step loop's clock, once it has ended: until it first ran, and from
   * then to its first token; 0: it did not */
  int64_t queued_ns, prefill_ns;
  int64_t progress_ns; /* time of the last report of progress; 0: none yet */
};

struct lls_generation {
  struct lls_api *api;
  struct lls_generation *prev, *next;
  struct lls_http_exchange *exchange;
  struct lls_offline *offline;
  struct lls_answer_sink *sink; /* or NULL */
  bool is_offline;              /* stays true when offline is NULL after answer or drop */
  const struct lls_dialect *dialect;
  struct lls_api_params params;
  struct lls_api_prompt_list prompts;
  struct lls_lora *lora;       /* content of params.adapter, or NULL; a reference */
  struct lls_grammar *grammar; /* constrains the answers, or NULL; a reference */
  char id[64];                 /* a prefix such as "cmpl-" and hex digits */
  char label[128];             /* the request id of headers and logs */
  int64_t created_s;           /* Unix time */
  int64_t arrival_ns;          /* time by main's clock */
  int64_t sent_ns; /* when bytes were last sent to the client, by main's clock */
  uint32_t tenant;
  struct lls_account *account; /* a reference, or NULL: no limits */
  struct lls_choice *choices;  /* (n_choices) prompt by prompt */
  void *state;                 /* the dialect's own state of the answer, or NULL */
  uint32_t n_choices, n_unfinished;
  bool streaming;  /* the answer has begun */
  bool incomplete; /* out of memory: a part of the answer is lost */
  bool large;      /* came in a large body: freeing it takes long */
};

/* Returns the name of the model that answers: the adapter's, if there is one. */
static inline const char *lls_generation_model(const struct lls_generation *generation)
{
  const struct lls_adapter *adapter = generation->params.adapter;
  return adapter != NULL ? adapter->name : generation->api->model_name;
}

/* Tokens of a request, for its answer. */
struct lls_usage {
  int64_t prompt, cached; /* cached: of the prompt's, found in the cache */
  int64_t created; /* of the prompt's, computed in whole blocks that the cache shares */
  int64_t completion, reasoning;
  int64_t accepted, rejected; /* guesses that steps verified: in the answer, and others */
};

/* Returns true if a client, an offline callback or a sink still
 * waits for the answer. */
static inline bool lls_generation_is_wanted(const struct lls_generation *generation)
{
  return generation->exchange != NULL || generation->offline != NULL ||
         generation->sink != NULL;
}

/* Reads and submits a request that did not come over HTTP, and takes over its body.
 * offline gets the answer, and must stay valid until then, or until it is dropped. */
void lls_generation_run(struct lls_api *api, struct lls_text *body,
                        struct lls_offline *offline, const struct lls_dialect *dialect);

/* [any] Creates a generation that is not submitted yet; takes params and prompts over.
 * Returns NULL if out of memory. */
struct lls_generation *lls_generation_create(const struct lls_api_config *config,
                                             const struct lls_dialect *dialect,
                                             struct lls_api_params *params,
                                             struct lls_api_prompt_list *prompts);

/* Frees a generation that was not started; a large one later, on a thread. */
void lls_generation_drop(struct lls_api *api, struct lls_generation *generation);

/* Submits all choices. The generation takes over the exchange, which is NULL if
 * generation->offline waits for the answer. Returns false if it was refused: the client
 * has the reason, and the generation may be freed. */
bool lls_generation_start(struct lls_api *api, struct lls_generation *generation,
                          struct lls_http_exchange *exchange);

/* Makes the exchange wait for the generation, and cancels the generation if the client
 * disconnects. */
void lls_generation_attach(struct lls_generation *generation,
                           struct lls_http_exchange *exchange);

/* Cancels the unfinished choices; the generation is freed when their FINISHED events
 * arrive. */
void lls_generation_cancel(struct lls_generation *generation);

/* For lls_loop_events; context is the struct lls_api. */
void lls_generation_on_event(void *context, const struct lls_event *event);

/* Called after a batch of events: sends the text of the choices in api->unflushed. */
void lls_generation_flush(struct lls_api *api);

/* [any] Returns the choice's ready text as JSON; NULL if out of memory. */
json_t *lls_choice_text(const struct lls_choice *choice);

/* [any] Counts the tokens of a request so far. */
struct lls_usage lls_generation_usage(const struct lls_generation *generation);

/* Frees a generation that was started, in whatever state. */
void lls_generation_destroy(struct lls_generation *generation);

#endif
