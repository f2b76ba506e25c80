/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One generation request from its submission to its last event: k prompts times n
 * choices, each a request of the step loop.
 *
 *   choice: LIVE --stop string--> STOPPED (cancelled, its end awaited) --> FINISHED
 *             +---------------event FINISHED---------------------------------^
 *
 * Invariants: the generation lives until all its choices are FINISHED, and no longer;
 * exchange is NULL from the moment that the client is answered or gone, and then nothing
 * more is written. A generation that lost its exchange has cancelled all its choices. One
 * that no client waits for has `offline` in place of an exchange (offline.h).
 */
#ifndef LLS_API_GENERATION_H
#define LLS_API_GENERATION_H

#include "core/api/api_internal.h"
#include "core/api/api_params.h"
#include "core/api/offline.h"
#include "core/api/prompt.h"
#include "text/tools/tool_parser.h"

enum lls_choice_state { LLS_CHOICE_LIVE, LLS_CHOICE_STOPPED, LLS_CHOICE_FINISHED };

struct lls_response;

struct lls_choice {
  struct lls_generation *generation;
  struct lls_choice *prev, *next; /* in api->unflushed, if there */
  bool unflushed;
  enum lls_choice_state state;
  uint32_t index;
  const struct lls_api_prompt *prompt;
  uint64_t request; /* id in the step loop */
  struct lls_detokenizer detokenizer;
  struct lls_text text;       /* streamed: not sent yet; else all of it */
  size_t ready;               /* bytes of it that are no beginning of a stop string */
  uint32_t n_tokens;          /* generated, with those that have no text */
  uint32_t shared_tokens;     /* of the prompt, not computed; UINT32_MAX: not known yet */
  bool reports;               /* the client wants to know of each token */
  struct lls_sampled *tokens; /* (n_unreported) */
  uint32_t n_unreported, token_capacity;
  struct lls_sampled *scores; /* (prompt tokens) the first one empty; or NULL */
  float *vector;      /* (config.vector_columns) where one was asked for; or NULL */
  size_t text_offset; /* characters of the reported tokens, for logprobs */
  bool begun;         /* streamed: a chunk was sent */
  bool ended;         /* streamed: the chunk with the finish reason was sent */
  struct lls_tool_parser *parser;            /* takes the text of a chat apart, or NULL */
  struct lls_tool_answer answer;             /* into this, in place of text */
  uint32_t n_reasoning;                      /* tokens of n_tokens */
  const char *finish_reason;                 /* static; NULL until it is known */
  const struct lls_stop_string *stop_string; /* what ended it, or NULL */
  const struct lls_regex_finder *stop_regex; /* likewise */
  struct lls_regex_scan **scans;             /* (params.n_stop_regex), or NULL */
  int32_t stop_token;                        /* of stop_token_ids, or -1 */
  int64_t first_token_ns, last_token_ns;     /* on main's clock, 0 before */
  int64_t longest_gap_ns;                    /* between two tokens */
};

struct lls_generation {
  struct lls_api *api;
  struct lls_generation *prev, *next;
  struct lls_http_exchange *exchange;
  struct lls_offline *offline;
  bool is_offline; /* also when it has been answered or dropped */
  enum lls_endpoint endpoint;
  struct lls_api_params params;
  struct lls_api_prompt_list prompts;
  struct lls_grammar *grammar; /* that answers keep to, or NULL; a reference */
  char id[64]; /* "cmpl-", "chatcmpl-" ... and hex digits; of a response as of a file */
  char label[128];    /* the request id of headers and logs */
  int64_t created_s;  /* Unix time */
  int64_t arrival_ns; /* on main's clock */
  int64_t sent_ns;    /* likewise: when its client last heard of it */
  uint32_t tenant;
  struct lls_account *account;   /* a reference, or NULL: no limits */
  struct lls_choice *choices;    /* (n_choices) prompt by prompt */
  struct lls_response *response; /* the form of the answer, of /v1/responses; or NULL */
  uint32_t n_choices, n_unfinished;
  bool streaming;  /* the answer has begun */
  bool incomplete; /* memory was short, and something of the answer is lost */
  bool large;      /* came in a large body: takes long to free */
};

/* The prompts that an endpoint finds in a body: 0, or -1 and why, with nothing to free.
 * Any thread. */
typedef int (*lls_prompt_reader)(const struct lls_api_config *config, const json_t *body,
                                 const struct lls_api_params *params,
                                 struct lls_api_prompt_list *prompts,
                                 struct lls_api_error *error);

/* Somebody waits for the answer. */
static inline bool lls_generation_is_wanted(const struct lls_generation *generation)
{
  return generation->exchange != NULL || generation->offline != NULL;
}

/* Reads the request, submits it, and answers the exchange: later, or at once if it fails.
 */
void lls_generation_handle(struct lls_api *api, struct lls_http_exchange *exchange,
                           enum lls_endpoint endpoint, lls_prompt_reader read_prompts);

/* The same of a body that came otherwise. */
void lls_generation_run(struct lls_api *api, struct lls_text *body,
                        struct lls_offline *offline, enum lls_endpoint endpoint,
                        lls_prompt_reader read_prompts);

/* A generation that has not begun; takes params and prompts over. NULL without memory.
 * Any thread. */
struct lls_generation *lls_generation_create(const struct lls_api_config *config,
                                             enum lls_endpoint endpoint,
                                             struct lls_api_params *params,
                                             struct lls_api_prompt_list *prompts);

/* Frees one that was not begun, in time if it is large. */
void lls_generation_drop(struct lls_api *api, struct lls_generation *generation);

/* Submits all choices; the exchange belongs to the generation from here on. It is NULL
 * where generation->offline waits for the answer. */
void lls_generation_start(struct lls_api *api, struct lls_generation *generation,
                          struct lls_http_exchange *exchange);

/* The exchange waits for the generation, which is told when its client goes. */
void lls_generation_attach(struct lls_generation *generation,
                           struct lls_http_exchange *exchange);

/* Cancels the choices that are alive; the generation goes when their ends arrive. */
void lls_generation_cancel(struct lls_generation *generation);

/* For lls_loop_events; context is the struct lls_api. */
void lls_generation_on_event(void *context, const struct lls_event *event);

/* After a batch of events: sends what they left to be sent. */
void lls_generation_flush(struct lls_api *api);

/* The same of one that was begun, whatever its state. */
void lls_generation_destroy(struct lls_generation *generation);

#endif
