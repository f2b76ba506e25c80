/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks on their way between processes, a piece at a time: a head, which says what is
 * behind it, and the numbers of so many pulls. A piece lies in the memory that the
 * channel sends it from: the host's, pinned; or the GPU's own, where the MPI takes that.
 */
#ifndef LLS_LOOP_BULK_H
#define LLS_LOOP_BULK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/engine/engine.h"

struct lls_channel;
struct lls_channel_message;

/* Pulls [first, first + n) of the ticket's list. */
struct lls_piece {
  uint64_t ticket;
  uint32_t first, n;
};

struct lls_bulk {
  struct lls_engine *engine;
  struct lls_channel *channel;
  enum lls_memory memory;
  size_t bytes;           /* most numbers of a piece */
  struct lls_piece *head; /* to or from the GPU; NULL: pieces are in host memory */
};

/* [main] The channel gets its memory. -ENOMEM; lls_bulk_close is due in any case. */
int lls_bulk_open(struct lls_bulk *, struct lls_engine *, struct lls_channel *,
                  bool on_gpu);
void lls_bulk_close(struct lls_bulk *);

/* The rest is the channel's thread's. */

/* Before its first use of the channel: MPI looks for the GPU of the thread that calls. */
void lls_bulk_begin(struct lls_bulk *);
/* Makes one of the head and its pulls, list (head->n); how many bytes that is, or, if it
 * has failed, another number than the receiver expects. */
size_t lls_bulk_pack(struct lls_bulk *, const struct lls_piece *head,
                     const struct lls_pull *list, char *room);
/* False: it is none. */
bool lls_bulk_read(struct lls_bulk *, const struct lls_channel_message *,
                   struct lls_piece *head);
/* Its numbers to where its pulls, list (head->n), want them. -EIO. */
int lls_bulk_unpack(struct lls_bulk *, const struct lls_channel_message *,
                    const struct lls_piece *head, const struct lls_pull *list);

#endif
