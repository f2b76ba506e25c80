/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where lines of the log go without waiting for their reader: stderr (a file, a
 * pipe, a terminal, a socket) or the journal. What is not taken at once is kept, up to
 * LLS_SINK_BYTES, and written before what comes later; beyond that, lines are lost and
 * counted.
 *
 * Any thread may call; none waits for more than another one's write that does not wait.
 */
#ifndef LLS_OBS_LOG_SINK_H
#define LLS_OBS_LOG_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LLS_SINK_BYTES (1 << 20)

struct lls_log_sink;

/* fd is borrowed, its flags are left alone: other processes may share them. NULL without
 * memory. */
struct lls_log_sink *lls_log_sink_create(int fd);

/* Writes the line, keeps it for later, or loses it. */
void lls_log_sink_put(struct lls_log_sink *sink, const void *line, size_t length);

/* Writes what was kept, as far as it is taken; whether some is left. */
bool lls_log_sink_flush(struct lls_log_sink *sink);

/* Lines lost since it was last asked; 0 as long as there is hardly room to say so. */
uint64_t lls_log_sink_lost(struct lls_log_sink *sink);

/* Waits at most so long for what was kept to be taken. */
void lls_log_sink_destroy(struct lls_log_sink *sink, int most_ms);

#endif
