/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dialect: how the requests of one endpoint are read and their answers written. The
 * machinery around it (reading.c, submit.c, events.c, reply.c) is the same for all.
 *
 *   body --translate--> body of params_of --parameters, read_prompts--> generation
 *   generation --whole or write----> the answer
 *              --chunk ... end-----> the events of a stream (failure: of its rest)
 *
 * A dialect is constant data: a row of LLS_ROUTES (routes.h) gives it its paths. Optional
 * members are NULL. Functions that return JSON return a new reference, or NULL if out of
 * memory; those of a stream return an array of the events to send now, which may be
 * empty.
 */
#ifndef LLS_API_DIALECT_H
#define LLS_API_DIALECT_H

#include "core/api/api_internal.h"
#include "core/api/api_params.h"
#include "core/api/prompt.h"
#include "core/http/router.h"

/* How the events of a stream are sent. */
struct lls_framing {
  void (*begin)(struct lls_http_exchange *exchange);
  /* Sends an event: `text` is its JSON. */
  void (*send)(struct lls_http_exchange *exchange, const json_t *event, const char *text,
               size_t length);
  /* Sends something that clients ignore, to keep a silent connection alive. */
  void (*keep_alive)(struct lls_http_exchange *exchange);
  void (*end)(struct lls_http_exchange *exchange);
};

/* Server-sent events: unnamed ones that end with [DONE], or without it; or each with the
 * name that its member "type" has. */
extern const struct lls_framing lls_framing_data, lls_framing_unended, lls_framing_named;

/* The stored answers that a request continues or refers to. */
struct lls_past {
  const char *why_none; /* a clause with the reason if there is no store, else NULL */
  json_t *found;        /* what the dialect's memory has loaded, in its form; or NULL */
};

/* Callback. past: a new reference, or NULL with *error set. exchange: NULL if the
 * client has disconnected. */
typedef void lls_past_found(struct lls_api *api, void *context,
                            struct lls_http_exchange *exchange, json_t *past,
                            const struct lls_api_error *error);

/* Called when the store has finished; it destroys the generation. */
typedef void lls_answer_stored(struct lls_generation *generation, bool stored,
                               void *context);

/* The store of a dialect whose requests can continue earlier answers. Everything runs on
 * [main], except where marked. */
struct lls_dialect_memory {
  /* Returns true if this server stores answers. */
  bool (*is_on)(const struct lls_api *api);
  /* [any] Returns true if the body continues a stored answer, or refers to a part. */
  bool (*needs)(const json_t *body);
  /* Loads what the body needs, then calls `found`; the body is borrowed until then. */
  void (*load)(struct lls_api *api, struct lls_http_exchange *exchange,
               const json_t *body, lls_past_found *found, void *context);
  /* [any] Returns true if the answer is to be stored before the client gets it. */
  bool (*wants)(const struct lls_generation *generation);
  /* Returns 0, or -1 with *error set if the answer is to be stored and could not be now.
   */
  int (*check)(const struct lls_api *api, const struct lls_generation *generation,
               struct lls_api_error *error);
  /* Returns the id of the answer that this one continues, or NULL. Optional: without it
   * answers are of no session. */
  const char *(*continues)(const struct lls_generation *generation);
  /* Returns the part of a stream's last events that is stored; borrowed. */
  json_t *(*part)(const json_t *events);
  /* Stores the answer, `text` as JSON, then calls `done`, which may free the text. */
  void (*store)(struct lls_generation *generation, const char *text,
                lls_answer_stored *done, void *context);
  /* Changes an answer, or its part, to say that it is not stored. */
  void (*say_not_stored)(json_t *part);
  /* Returns true if the client does not wait for the answer; if so, `detach` takes the
   * submitted generation from it. */
  bool (*detaches)(const struct lls_generation *generation);
  void (*detach)(struct lls_generation *generation);
};

/* A member of a dialect's bodies; its type is checked, and /openapi.json shows it. */
struct lls_body_member {
  const char *name;
  /* JSON types, '|' between them; "": any; NULL: a parameter of params_of that the
   * dialect does not have */
  const char *type;
  bool required;
};

struct lls_dialect {
  const char *id_prefix; /* prefix of answers' ids */
  /* The parameters of api_params.c that the body may have once it is translated. */
  enum lls_endpoint params_of;
  /* The members that `translate` reads, ended by one without a name; besides them bodies
   * have the parameters of params_of, unless these are all. */
  const struct lls_body_member *members;
  bool alone;
  bool is_chat; /* the answer is a message: reasoning, content and tool calls */
  /* A whole answer is made of chunks, too: `chunk` is called as in a stream, and its
   * events are dropped. */
  bool gathers;
  /* A number of tokens beyond the room is cut to the room, instead of refused. */
  bool cuts_answers;
  const char *id_header;  /* one more header with the request id; errors have it, too */
  const char *batch_path; /* the "endpoint" of batches; NULL: batches don't support it */
  const struct lls_framing *framing;       /* NULL: no streams */
  const struct lls_dialect_memory *memory; /* NULL: answers are not stored */

  /* ---- the request ---- */

  /* [any] Optional: returns the dialect of this body, where requests of several dialects
   * share a path. */
  const struct lls_dialect *(*pick)(const json_t *body);
  /* [any] Optional: returns the body in the form of params_of, or NULL with *error set.
   * Sets *state to the dialect's own state of the answer. */
  json_t *(*translate)(json_t *body, const struct lls_past *past, void **state,
                       struct lls_unknown_names *unknown, struct lls_api_error *error);
  /* Optional: renames the parameter of an error to the one that the client sent. */
  void (*rename)(struct lls_api_error *error);
  /* [any] Optional, called instead of read_prompts: may shorten what the body has, as the
   * dialect's state says. */
  int (*fit_prompts)(const struct lls_api_config *config, const json_t *body,
                     const void *state, const struct lls_api_params *params,
                     struct lls_api_prompt_list *prompts, struct lls_api_error *error);
  /* [any] Reads the prompts of a body. Returns 0; or -1 with *error set and nothing to
   * free. */
  int (*read_prompts)(const struct lls_api_config *config, const json_t *body,
                      const struct lls_api_params *params,
                      struct lls_api_prompt_list *prompts, struct lls_api_error *error);

  /* ---- the answer ---- */

  /* Optional: returns the whole answer of a request that generates nothing, made from its
   * prompts alone. */
  json_t *(*count)(const struct lls_generation *generation);
  /* [any] One of the two: the whole answer as JSON; or as text, which the caller frees,
   * if a tree of JSON values would take too much memory. */
  json_t *(*whole)(const struct lls_generation *generation);
  char *(*write)(const struct lls_generation *generation);
  /* The events of the choice's ready text and unreported tokens. */
  json_t *(*chunk)(struct lls_choice *choice);
  /* Optional: the events that report how much of the choice's prompt is computed, before
   * its first chunk. */
  json_t *(*progress)(struct lls_choice *choice);
  /* The events after the last chunk. */
  json_t *(*end)(const struct lls_generation *generation);
  /* The events instead of the rest of a stream. */
  json_t *(*failure)(const struct lls_generation *generation,
                     const struct lls_api_error *error);
  /* An error before the answer has begun, in the shape that the dialect's clients
   * expect. */
  json_t *(*error)(const struct lls_api_error *error);
  /* Optional: the HTTP status of an error, where clients expect another one. */
  unsigned (*status)(const struct lls_api_error *error);
  /* Optional: frees the state that translate has set; NULL is allowed. */
  void (*free_state)(void *state);
};

/* [any] Checks the types of a body's members. Returns 0, or -1 with *error set. */
int lls_dialect_check(const struct lls_body_member *members, const json_t *body,
                      struct lls_api_error *error);

/* Reads a request of the exchange's route and submits it; context is the struct lls_api.
 * The exchange is answered later; at once if that fails. */
void lls_handle_dialect(void *context, struct lls_http_exchange *exchange);

/* Returns the dialect of the exchange's route, or NULL. */
static inline const struct lls_dialect *
lls_dialect_of(const struct lls_http_exchange *exchange)
{
  const struct lls_http_route *route = exchange->route;
  return route != NULL ? route->data : NULL;
}

#endif
