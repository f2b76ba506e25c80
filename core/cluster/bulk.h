/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks on their way between processes, a piece at a time: a head, which says what is
 * behind it, and the numbers of so many pulls. A piece lies in the memory that the
 * channel sends it from: the host's, pinned; or the GPU's own, where the MPI takes that.
 * Where there is a link from the one's device to the other's (links.h) the channel has
 * the head alone, and the numbers go by the link.
 */
#ifndef LLS_CLUSTER_BULK_H
#define LLS_CLUSTER_BULK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/engine/engine.h"
#include "core/cluster/fetch.h"

struct lls_bulk_word;
struct lls_channel;
struct lls_links;

/* Pulls [first, first + n) of the ticket's list. */
struct lls_piece {
  uint64_t ticket;
  uint32_t first, n;
};

/* One that has come. */
struct lls_arrived {
  uint32_t from;
  struct lls_piece piece;
  const char *numbers; /* NULL: they are lost */
  size_t bytes;        /* of them */
};

struct lls_bulk {
  struct lls_engine *engine;
  struct lls_channel *channel;
  enum lls_memory memory;
  size_t bytes;               /* most numbers of a piece */
  struct lls_links *links;    /* NULL: none */
  struct lls_error no_links;  /* why, where they were tried */
  struct lls_bulk_word *word; /* to or from the GPU; NULL: pieces are in host memory */
};

/* [main] The channel gets its memory. Negative, with a sentence; lls_bulk_close is due in
 * any case. */
int lls_bulk_open(struct lls_bulk *, const struct lls_fetches_options *,
                  struct lls_error *err);
void lls_bulk_close(struct lls_bulk *);

/* The rest is the channel's thread's. */

/* Before its first use of the channel: MPI looks for the GPU of the thread that calls. */
void lls_bulk_begin(struct lls_bulk *);
/* Sends what is said of its pulls, list (piece->n). False: there is no room now. */
bool lls_bulk_send(struct lls_bulk *, uint32_t to, const struct lls_piece *,
                   const struct lls_pull *list);
/* The next that has come, valid until the next call. False: none now. */
bool lls_bulk_receive(struct lls_bulk *, struct lls_arrived *);
/* Its numbers to where its pulls, list (piece.n), want them. -EIO. */
int lls_bulk_unpack(struct lls_bulk *, const struct lls_arrived *,
                    const struct lls_pull *list);
/* Moves on what is under way. True: something has moved. */
bool lls_bulk_go_on(struct lls_bulk *);
/* A process is gone. */
void lls_bulk_forget(struct lls_bulk *, uint32_t index);

#endif
