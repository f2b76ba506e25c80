/* SPDX-License-Identifier: Apache-2.0 */
/* Sends one request to a running llmserve on a separate connection; the answer is JSON
 * or text. */
#ifndef LLS_CTL_ASK_H
#define LLS_CTL_ASK_H

#include <jansson.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/ini.h"

#define CTL_ADDRESS_BYTES 300

struct ctl_server {
  const char *address;
  const char *key;   /* an API key; "": none */
  const char *model; /* of several that the server has; NULL: the request is about all */
};

/* Writes the first address without TLS in [server] listen; the last one if each has TLS,
 * the key's default if there are none. */
void ctl_find_address(const struct lls_ini *ini, char out[CTL_ADDRESS_BYTES]);

/* Returns the HTTP status, with an answer that the caller releases. Negative, with an
 * error: not reachable, no answer, or no JSON. */
int ctl_ask(const struct ctl_server *server, const char *method, const char *path,
            json_t **answer, struct lls_error *err);

/* Like ctl_ask, with a JSON body, which may be NULL and remains the caller's. */
int ctl_ask_with(const struct ctl_server *server, const char *method, const char *path,
                 const json_t *body, json_t **answer, struct lls_error *err);

/* Like ctl_ask, for a GET whose answer is text and whose errors are JSON: `text` holds
 * either. */
int ctl_ask_text(const struct ctl_server *server, const char *path, struct lls_text *text,
                 struct lls_error *err);

#endif
