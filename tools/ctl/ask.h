/* SPDX-License-Identifier: Apache-2.0 */
/* One question to a running llmserve: a request on its own connection, JSON or text back.
 */
#ifndef LLS_CTL_ASK_H
#define LLS_CTL_ASK_H

#include <jansson.h>

#include "core/base/error.h"
#include "core/base/text.h"

struct ctl_server {
  const char *address;
  const char *key; /* an API key, "": none */
};

/* The HTTP status, with the answer that the caller releases; or negative and the
 * sentence: not reachable, no answer, no JSON. */
int ctl_ask(const struct ctl_server *server, const char *method, const char *path,
            json_t **answer, struct lls_error *err);

/* The same with a body of JSON, which may be NULL; not taken over. */
int ctl_ask_with(const struct ctl_server *server, const char *method, const char *path,
                 const json_t *body, json_t **answer, struct lls_error *err);

/* The same of a GET whose answer is text, as its error is JSON: `text` has either. */
int ctl_ask_text(const struct ctl_server *server, const char *path, struct lls_text *text,
                 struct lls_error *err);

#endif
