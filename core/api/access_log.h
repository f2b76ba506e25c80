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
  int64_t second;  /* of the monotonic clock, that lines are counted in */
  uint32_t lines;  /* in it */
  uint64_t unsaid; /* lines left out since the last one */
};

/* choice: enum lls_access_log_choice. */
void lls_access_log_write(struct lls_access_log *access, uint32_t choice,
                          const struct lls_log *log, struct lls_http_exchange *exchange,
                          double took_s);

#endif
