/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of all endpoints before their own; see api_request.c. */
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

/* Copies a name that was not there; false if it was, is too long, or has no room. */
bool lls_unknown_add(struct lls_unknown_names *names, const char *name);
void lls_unknown_free(struct lls_unknown_names *names);

/* A request's body as a JSON object; the caller releases it. NULL and why. Any thread. */
json_t *lls_api_body(const struct lls_text *text, struct lls_api_error *error);

/* The parameters of a body, as this server takes them: 0, or -1 and why, with nothing to
 * free. Unknown names are added to `unknown`. Any thread. */
int lls_api_read_params(const struct lls_api_config *config, const json_t *body,
                        enum lls_endpoint endpoint, struct lls_unknown_names *unknown,
                        struct lls_api_params *out, struct lls_api_error *error);

/* Appends the text of the tokens, as one that begins with them. Any thread. */
void lls_api_decode(const struct lls_api_config *config, const int32_t *ids, size_t count,
                    bool skip_special, struct lls_text *text);

/* Fails where nothing new is taken: draining, or the engine is broken. */
int lls_api_check_open(struct lls_api *api, struct lls_api_error *error);

/* Seconds after which a refused request may find room. */
unsigned lls_api_retry_after(struct lls_api *api);

/* A line in the log, and that the request has had it. */
void lls_api_log_refusal(const struct lls_api *api, struct lls_http_exchange *exchange,
                         const struct lls_api_error *error);

/* Reports the parameters of a request that have no effect: a header of its answer names
 * them, and the log has each once. */
#define LLS_IGNORED_HEADER "x-llmserve-ignored"
void lls_api_note_unknown(struct lls_api *api, struct lls_http_exchange *exchange,
                          const struct lls_unknown_names *names);

#endif
