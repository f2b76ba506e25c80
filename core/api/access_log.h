/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line of the log for a request that is answered: who asked for what, the status, and
 * of an error its sentence. Neither headers nor query are in it: keys may be there.
 *
 * Refused requests cost their sender nothing, so their lines are bounded: beyond
 * LLS_ACCESS_LINES a second they are counted, and the number is said with the next line.
 */
#ifndef LLS_API_ACCESS_LOG_H
#define LLS_API_ACCESS_LOG_H

#include <stdint.h>

#include "core/http/exchange.h"
#include "core/obs/log.h"

#define LLS_ACCESS_LINES 50

struct lls_access_log {
  int64_t second;       /* of the monotonic clock, that lines are counted in */
  uint32_t lines;       /* in it */
  uint64_t unsaid;      /* lines left out since the last one */
  uint64_t turned_away; /* connections that had no room, of which there was a line */
  int64_t crowded_s;    /* of the monotonic clock: when that was */
};

/* choice: enum lls_access_log_choice. */
void lls_access_log_write(struct lls_access_log *access, uint32_t choice,
                          const struct lls_log *log, struct lls_http_exchange *exchange,
                          double took_s);

/* Connections that had no room since the last line, which is a minute old or more: one
 * for all of them. They have no request that could be told of. */
void lls_access_log_crowd(struct lls_access_log *access, const struct lls_log *log,
                          uint64_t turned_away, int64_t most);

#endif
