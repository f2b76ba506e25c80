/* SPDX-License-Identifier: Apache-2.0 */
/* The first steps of every endpoint: parsing a body, reading parameters, refusing. */
#ifndef LLS_API_API_REQUEST_H
#define LLS_API_API_REQUEST_H

#include "core/api/api.h"
#include "core/api/api_error.h"
#include "core/api/api_params.h"

/* Names of unknown parameters, the first LLS_MAX_UNKNOWN of them. */
#define LLS_MAX_UNKNOWN 64

/* A zeroed struct holds none. */
struct lls_unknown_names {
  char *names[LLS_MAX_UNKNOWN]; /* (n) */
  unsigned n;
};

/* Copies a new name. Returns false if the list has the name already or is full, if the
 * name is too long, or if out of memory. */
bool lls_unknown_add(struct lls_unknown_names *names, const char *name);
/* Removes the members of these names (ended by NULL) from a body, and adds the names of
 * those that it had. */
void lls_unknown_drop(struct lls_unknown_names *names, json_t *body,
                      const char *const *dropped);
void lls_unknown_free(struct lls_unknown_names *names);
/* Adds PATH.NAME for each member of the object that asks for something and whose name is
 * not in `known`, words with a space between two. */
void lls_unknown_add_members(struct lls_unknown_names *names, const json_t *object,
                             const char *path, const char *known);
/* The same for the objects at the path in the body: member names with a dot between two,
 * through every element of arrays. */
void lls_unknown_add_at(struct lls_unknown_names *names, const json_t *body,
                        const char *path, const char *known);

/* [any] Returns a request's body as JSON, which the caller releases, or NULL with *error
 * set. */
json_t *lls_api_value(const struct lls_text *text, struct lls_api_error *error);
/* As lls_api_value, but refuses a body that is not an object. */
json_t *lls_api_body(const struct lls_text *text, struct lls_api_error *error);

/* [any] Reads the parameters of a body for `endpoint`. Returns 0; or -1 with *error set
 * and nothing to free. Unknown names are added to `unknown`. */
int lls_api_read_params(const struct lls_api_config *config, const json_t *body,
                        enum lls_endpoint endpoint, struct lls_unknown_names *unknown,
                        struct lls_api_params *out, struct lls_api_error *error);

/* [any] Appends the text of the tokens, decoded as the start of a text. */
void lls_api_decode(const struct lls_api_config *config, const int32_t *ids, size_t count,
                    bool skip_special, struct lls_text *text);

/* Returns -1 with *error set if no new requests are accepted: the server is draining,
 * or the engine has failed. */
int lls_api_check_open(struct lls_api *api, struct lls_api_error *error);

/* Returns the estimated seconds until a refused request may be accepted. */
unsigned lls_api_retry_after(struct lls_api *api);

/* Logs the refusal, and marks the exchange as logged. */
void lls_api_log_refusal(const struct lls_api *api, struct lls_http_exchange *exchange,
                         const struct lls_api_error *error);

/* Reports the parameters of a request that have no effect: a header of its answer names
 * them, and the log has each once. */
#define LLS_IGNORED_HEADER "x-llmserve-ignored"
void lls_api_note_unknown(struct lls_api *api, struct lls_http_exchange *exchange,
                          const struct lls_unknown_names *names);

#endif
