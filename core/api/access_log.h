/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one log line for each answered request: client, method, path, status, and the
 * message of an error. Headers and the query are left out, since they may contain keys.
 *
 * Sending requests that are refused costs a client nothing, so their lines are limited:
 * beyond LLS_ACCESS_LINES a second they are only counted, and the next line is preceded
 * by the count.
 */
#ifndef LLS_API_ACCESS_LOG_H
#define LLS_API_ACCESS_LOG_H

#include <stdint.h>

#include "core/http/exchange.h"
#include "core/obs/log.h"

#define LLS_ACCESS_LINES 50

struct lls_access_log {
  int64_t second;       /* second of the monotonic clock in which `lines` counts */
  uint32_t lines;       /* lines written so far in `second` */
  uint64_t unsaid;      /* lines left out since the last one */
  uint64_t turned_away; /* refused connections that were already logged */
  int64_t crowded_s;    /* monotonic time of the last line about refused connections */
};

/* choice: enum lls_access_log_choice. */
void lls_access_log_write(struct lls_access_log *access, uint32_t choice,
                          const struct lls_log *log, struct lls_http_exchange *exchange,
                          double took_s);

/* Logs the connections refused because `most` were open already: at most one line a
 * minute, with the number since the last line. A refused connection has sent no request
 * that could be logged. turned_away: all refused connections so far. */
void lls_access_log_crowd(struct lls_access_log *access, const struct lls_log *log,
                          uint64_t turned_away, int64_t most);

#endif
