/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends spans to a collector of OpenTelemetry (OTLP over HTTP, in JSON). The network is
 * the business of a process of its own, forked before the sandbox: the server itself
 * makes no connection and never waits for the collector.
 *
 *   [main] add, tick --> socket --> export_process.c --> POST URL/v1/traces
 *          counts    <-- socket <--
 *
 * Spans wait for up to a second and are then sent together. If the collector is slower
 * than the requests, spans are dropped and counted: MOST_UNSENT bytes are kept.
 */
#ifndef LLS_TRACES_EXPORTER_H
#define LLS_TRACES_EXPORTER_H

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"
#include "core/obs/log.h"

struct lls_exporter;

struct lls_export_counts {
  uint64_t sent, failed; /* spans that the collector took, and did not take */
  uint64_t dropped;      /* spans that were not given to the process */
};

/* The process sends a report after each POST. */
struct lls_export_report {
  uint32_t n, failed; /* spans */
  char why[120];      /* of a failure */
};

/* Takes over the socket to the process and its pid. Returns NULL without memory, and
 * then the caller keeps both. */
struct lls_exporter *lls_exporter_create(int socket, pid_t pid,
                                         const struct lls_log *log);
/* [main] Takes over a span, as JSON of OTLP; NULL (no memory) counts as dropped. */
void lls_exporter_add(struct lls_exporter *, json_t *span);
/* [main] At intervals: sends what has waited long enough, reads reports, logs failures.
 */
void lls_exporter_tick(struct lls_exporter *, int64_t now_ns);
void lls_exporter_count(const struct lls_exporter *, struct lls_export_counts *out);
/* [main] Sends the last spans, for which it waits three seconds at most, and ends the
 * process. NULL is allowed. */
void lls_exporter_destroy(struct lls_exporter *);

/* export_process.c: forks the process, which ends when the socket is closed. Call it
 * before there are threads. Returns 0 or a negative errno. */
int lls_export_process_start(const char *url, int *socket, pid_t *pid,
                             struct lls_error *err);

#endif
