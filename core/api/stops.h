/* SPDX-License-Identifier: Apache-2.0 */
/* Where an answer's text ends before its tokens do: at a stop string, or where an
 * expression of stop_regex matches, whichever ends first. Nothing of one is ever shown
 * before it is certain that it isn't one. */
#ifndef LLS_API_STOPS_H
#define LLS_API_STOPS_H

#include "core/api/generation.h"

/* 0 or -ENOMEM; then free is due all the same. */
int lls_stops_init(struct lls_choice *choice);
void lls_stops_free(struct lls_choice *choice);

/* [main] New text: ends the choice's at a stop, holds back what may become one. */
void lls_stops_add_text(struct lls_choice *choice, const char *piece, size_t length);

static inline bool lls_stops_ended(const struct lls_choice *choice)
{
  return choice->stop_string != NULL || choice->stop_regex != NULL;
}

#endif
