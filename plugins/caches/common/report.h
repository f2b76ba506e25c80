/* SPDX-License-Identifier: Apache-2.0 */
/* What an audit writes down: lines of words for the sink, and the first thing that is
 * wrong for host->fail. */
#ifndef REPORT_H
#define REPORT_H

#include <llmserve/host.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

struct report {
  void *m; /* the manager */
  const struct lls_host *host;
  const struct lls_sink *sink;
  char line[512];
  size_t length;
  int result;
};

static inline void report_end_line(struct report *a)
{
  if (a->length > 0)
    a->sink->text(a->sink->context, a->line);
  a->length = 0;
}

/* Words of one line; a long list goes on on the next line. */
__attribute__((format(printf, 2, 3))) static inline void
report_say(struct report *a, const char *format, ...)
{
  if (a->length > sizeof a->line - 128)
    report_end_line(a);
  va_list args;
  va_start(args, format);
  int n = vsnprintf(a->line + a->length, sizeof a->line - a->length, format, args);
  va_end(args);
  a->length += (size_t)n;
}

/* Keeps the first thing that is wrong. */
static inline bool report_check(struct report *a, bool good, const char *what,
                                uint32_t which)
{
  if (!good && a->result == 0)
    a->result =
        a->host->fail(a->host->context, -EIO, "audit: %s (%" PRIu32 ")", what, which);
  return good;
}

#endif
