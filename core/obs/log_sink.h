/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes lines of the log without waiting for their reader, to stderr (a file, a pipe, a
 * terminal, a socket) or the journal. Lines that can't be written at once are kept, up to
 * LLS_SINK_BYTES, and written before later lines. Lines beyond that are lost and counted.
 *
 * Any thread may call. A thread waits only while another thread is in one of these
 * writes, none of which waits.
 */
#ifndef LLS_OBS_LOG_SINK_H
#define LLS_OBS_LOG_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LLS_SINK_BYTES (1 << 20)

struct lls_log_sink;

/* Creates a sink for fd, which stays the caller's. Its flags are not changed, since other
 * processes may share them. Returns NULL without memory. */
struct lls_log_sink *lls_log_sink_create(int fd);

/* Writes the line, keeps it for later, or counts it as lost. */
void lls_log_sink_put(struct lls_log_sink *sink, const void *line, size_t length);

/* Writes as many kept lines as possible without waiting. Returns true if some are
 * left. */
bool lls_log_sink_flush(struct lls_log_sink *sink);

/* Returns the lines lost since the last call; 0 while half of LLS_SINK_BYTES or more is
 * in use, since the report needs room too. */
uint64_t lls_log_sink_lost(struct lls_log_sink *sink);

/* Waits at most most_ms milliseconds until the kept lines are written; frees the sink. */
void lls_log_sink_destroy(struct lls_log_sink *sink, int most_ms);

#endif
