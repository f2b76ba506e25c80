/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logging: one line a call to stderr, as text or as JSON lines, or where stderr is the
 * journal to it, with fields. Safe from any thread: a
 * line is one write(2). Nothing on the step path logs above debug.
 *
 * With a sink no thread waits for the reader of the log: what it has lost is said, once
 * there is room, in a line of its own.
 */
#ifndef LLS_OBS_LOG_H
#define LLS_OBS_LOG_H

#include <llmserve/host.h>
#include <stdbool.h>

struct lls_log_sink;

enum lls_log_format { LLS_LOG_TEXT, LLS_LOG_JSON, LLS_LOG_JOURNAL /* fd: journal.h */ };

/* Owned by main, who may change level and format, and handed down to those that log. */
struct lls_log {
  int fd;                    /* 2, or of the journal */
  struct lls_log_sink *sink; /* of fd; NULL: writes wait for their reader */
  _Atomic uint32_t level;    /* enum lls_log_level: lines above it are dropped */
  _Atomic uint32_t format;   /* enum lls_log_format */
};

void lls_log(const struct lls_log *, uint32_t level, const char *where,
             const char *format, ...) __attribute__((format(printf, 4, 5)));

/* One fact of a line about a request. */
struct lls_log_field {
  const char *name;
  const char *text; /* or, where it is NULL, */
  double number;
};

/* A line about one request: its id and (n) fields; as text "ID: name value, ...". */
void lls_log_request(const struct lls_log *, uint32_t level, const char *where,
                     const char *request, const struct lls_log_field *fields, size_t n);

/* To be called now and then: writes what waits in the sink; whether some is left. */
bool lls_log_flush(const struct lls_log *);

#endif
