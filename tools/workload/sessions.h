/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: requests of one conversation. A turn's prompt begins with the prompt and the
 * answer of the turn before it, and adds what the user says or a tool returns. A turn
 * with a wait before it is sent when the turn before has ended and the wait is over, so
 * that each session is a closed loop of its own; a turn with a time of its own keeps it.
 *
 *   readers      rows with session_number, turn, growth, wait_ns
 *   split        finds each turn's predecessor; takes turns that follow out of the rows
 *   selection, arrivals, classes: of first turns, so a rate is one of sessions
 *   join         brings back the turns that follow a row which was selected
 *   link         sets previous and next, after the last sorting
 */
#ifndef LLS_WORKLOAD_SESSIONS_H
#define LLS_WORKLOAD_SESSIONS_H

#include "tools/workload/reader.h"

/* Moves the turns that follow others to `turns`, by session and turn. -EINVAL: a turn has
 * neither a time nor a wait before it. */
int lls_sessions_split(struct lls_rows *, struct lls_rows *turns, struct lls_error *);
/* Appends those of `turns` that follow a row, directly or through others; a turn without
 * class, priority and tenant gets those of the row. */
int lls_sessions_join(struct lls_rows *, const struct lls_rows *turns,
                      struct lls_error *);
/* Sets previous and next of the items. */
int lls_sessions_link(struct lls_rows *, struct lls_error *);

#endif
