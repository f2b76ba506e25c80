/* SPDX-License-Identifier: Apache-2.0 */
/* The report of an audit: lines of words for the sink, and the first fault for
 * host->fail. */
#ifndef LLS_POL_REPORT_H
#define LLS_POL_REPORT_H

#include <llmserve/host.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_report {
  void *m; /* the manager */
  const struct lls_host *host;
  const struct lls_sink *sink;
  char line[512];
  size_t length;
  int result;
};

static inline void lls_pol_report_end_line(struct lls_pol_report *a)
{
  if (a->length > 0)
    a->sink->text(a->sink->context, a->line);
  a->length = 0;
}

/* Adds words to a line; a long list continues on the next line. */
__attribute__((format(printf, 2, 3))) static inline void
lls_pol_report_say(struct lls_pol_report *a, const char *format, ...)
{
  if (a->length > sizeof a->line - 128)
    lls_pol_report_end_line(a);
  va_list args;
  va_start(args, format);
  int n = vsnprintf(a->line + a->length, sizeof a->line - a->length, format, args);
  va_end(args);
  a->length += (size_t)n;
}

/* Stores the first fault. */
static inline bool lls_pol_report_check(struct lls_pol_report *a, bool good,
                                        const char *what, uint32_t which)
{
  if (!good && a->result == 0)
    a->result =
        a->host->fail(a->host->context, -EIO, "audit: %s (%" PRIu32 ")", what, which);
  return good;
}

#ifdef __cplusplus
}
#endif

#endif
