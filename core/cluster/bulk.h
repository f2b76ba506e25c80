/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers of blocks between processes, piece by piece: a head, which describes the
 * piece, and the contents of some pulls. A piece is in the memory from which the
 * channel sends it: pinned host memory, or GPU memory if MPI supports that. If there is
 * a link between the two devices (links.h), the channel carries only the head, and the
 * link the contents.
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

/* The pulls [first, first + n) of the ticket's list. */
struct lls_piece {
  uint64_t ticket;
  uint32_t first, n;
};

/* A piece that has arrived. */
struct lls_arrived {
  uint32_t from;
  struct lls_piece piece;
  const char *numbers; /* contents; NULL: lost */
  size_t bytes;        /* bytes of the contents */
};

struct lls_bulk {
  struct lls_engine *engine;
  struct lls_channel *channel;
  enum lls_memory memory;
  size_t bytes;               /* most bytes of contents in a piece */
  struct lls_links *links;    /* NULL: no links */
  struct lls_error no_links;  /* the reason, if links were tried */
  struct lls_bulk_word *word; /* copies heads to or from the GPU; NULL: pieces are in
                               * host memory */
};

/* [main] Allocates the channel's memory. Returns a negative errno with a sentence on
 * failure; lls_bulk_close must be called in any case. */
int lls_bulk_open(struct lls_bulk *, const struct lls_fetches_options *,
                  struct lls_error *err);
void lls_bulk_close(struct lls_bulk *);

/* All functions below are the channel thread's. */

/* Call it before the thread's first use of the channel: MPI uses the calling thread's
 * GPU. */
void lls_bulk_begin(struct lls_bulk *);
/* Sends a piece; list has its piece->n pulls. Returns false if there is no room now. */
bool lls_bulk_send(struct lls_bulk *, uint32_t to, const struct lls_piece *,
                   const struct lls_pull *list);
/* Receives the next piece, valid until the next call. Returns false if there is none
 * now. */
bool lls_bulk_receive(struct lls_bulk *, struct lls_arrived *);
/* Copies a piece's contents to the targets of its pulls; list has piece.n of them.
 * Returns 0 or -EIO. */
int lls_bulk_unpack(struct lls_bulk *, const struct lls_arrived *,
                    const struct lls_pull *list);
/* Makes progress with transfers. Returns true if there was any. */
bool lls_bulk_go_on(struct lls_bulk *);
/* Drops the transfers with a process that has ended. */
void lls_bulk_forget(struct lls_bulk *, uint32_t index);

#endif
