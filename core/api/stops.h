/* SPDX-License-Identifier: Apache-2.0 */
/* Ends an answer's text at the first stop string or match of a stop_regex. Text that
 * may be the beginning of either is held back until a later token decides. */
#ifndef LLS_API_STOPS_H
#define LLS_API_STOPS_H

#include "core/api/generation.h"

/* Returns 0 or -ENOMEM; lls_stops_free is needed in both cases. */
int lls_stops_init(struct lls_choice *choice);
void lls_stops_free(struct lls_choice *choice);

/* [main] Appends new text: cuts the choice's text at a stop, and sets choice->ready so
 * that the possible beginning of a stop is held back. */
void lls_stops_add_text(struct lls_choice *choice, const char *piece, size_t length);

static inline bool lls_stops_ended(const struct lls_choice *choice)
{
  return choice->stop_string != NULL || choice->stop_regex != NULL;
}

#endif
