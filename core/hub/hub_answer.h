/* SPDX-License-Identifier: Apache-2.0 */
/* A hub's answer to a request, and the sentence for a user if it refused. */
#ifndef LLS_HUB_ANSWER_H
#define LLS_HUB_ANSWER_H

#include <stdint.h>

#include "core/hub/hub_places.h"

struct lls_hub_answer {
  long status;         /* HTTP's status code */
  char code[48];       /* x-error-code, such as GatedRepo, or "" */
  char message[200];   /* x-error-message, or "" */
  uint64_t range_from; /* content-range: first byte of the body */
  int64_t retry_after_s;
};

/* [any] Takes one header line, which is not NUL-terminated. A status line clears the
 * answer, since a redirect's headers come before those of its target. */
void lls_hub_answer_header(struct lls_hub_answer *, const char *line, size_t length);

/* [any] Writes the sentence for a status of 400 and more to err; returns a negative
 * errno. `what` is the file that was asked for, or NULL for the model itself. */
int lls_hub_refusal(const struct lls_hub_answer *, const struct lls_hub_places *,
                    const struct lls_hub_name *, const char *what, struct lls_error *err);

/* [any] Returns true if the same request may succeed later. */
bool lls_hub_may_retry(const struct lls_hub_answer *);

#endif
