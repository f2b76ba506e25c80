/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logging: one line per call to stderr, as text or JSON; or, if stderr is connected to
 * the journal, a datagram with fields. Safe from any thread: a line is one write(2). The
 * step path logs nothing above debug.
 *
 * With a sink no thread waits for the reader of the log. Lost lines are counted, and
 * reported in a line of their own when there is room.
 */
#ifndef LLS_OBS_LOG_H
#define LLS_OBS_LOG_H

#include <llmserve/host.h>
#include <stdbool.h>

struct lls_log_sink;

/* LLS_LOG_JOURNAL: fd is a socket to the journal (journal.h) */
enum lls_log_format { LLS_LOG_TEXT, LLS_LOG_JSON, LLS_LOG_JOURNAL };

/* Owned by main, which may change level and format, and passed by pointer to all code
 * that logs. */
struct lls_log {
  int fd;                    /* 2 (stderr), or the journal's socket */
  struct lls_log_sink *sink; /* writes to fd; NULL: writes wait for the reader */
  _Atomic uint32_t level;    /* enum lls_log_level: lines above it are dropped */
  _Atomic uint32_t format;   /* enum lls_log_format */
  /* the model of this process, if the log is shared with those of other models: "where"
   * begins with it; else "" */
  char model[64];
};

void lls_log(const struct lls_log *, uint32_t level, const char *where,
             const char *format, ...) __attribute__((format(printf, 4, 5)));

/* One field of a line about a request. */
struct lls_log_field {
  const char *name;
  const char *text; /* NULL: the value is `number` */
  double number;
};

/* Writes a line about one request: its id and (n) fields; as text "ID: name value,
 * ...". */
void lls_log_request(const struct lls_log *, uint32_t level, const char *where,
                     const char *request, const struct lls_log_field *fields, size_t n);

/* Writes the lines that wait in the sink. Returns true if some are left. main calls it
 * regularly. */
bool lls_log_flush(const struct lls_log *);

#endif
