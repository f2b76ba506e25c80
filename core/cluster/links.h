/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links between a process and the others (core/device/link.h). Each link carries
 * pieces in one direction. A link is opened when the first piece is to be sent on it;
 * until then, and if that fails, pieces are sent as without links.
 *
 *   sender                         receiver
 *     room() without a link: OFFER -->
 *                                  opens its end; if it cannot: REFUSED
 *                              <-- TAKEN
 *     opens its end
 *     give, `sequence` ----------> expect: gives its end memory for pieces, in order
 *                                  receive
 *
 * A broken link is not retried: the end that finds the fault sends REFUSED or
 * WITHDRAWN, both ends close, and pieces under way are received as lost; each of them
 * still needs its expect call, before or after this. A piece that is under way for too
 * long is handled the same way. These messages may arrive in any order.
 */
#ifndef LLS_CLUSTER_LINKS_H
#define LLS_CLUSTER_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/device/link.h"

struct lls_device;
struct lls_links;

enum lls_link_word {
  LLS_LINK_SILENT,
  LLS_LINK_OFFER,
  LLS_LINK_TAKEN,
  LLS_LINK_REFUSED,
  LLS_LINK_WITHDRAWN
};

struct lls_link_message {
  uint64_t word;
  struct lls_link_name name; /* OFFER */
  char why[128];             /* REFUSED */
};

/* A piece that is expected on a link. */
struct lls_linked {
  uint64_t sequence; /* number of the piece among all pieces of its link */
  uint64_t bytes;
  uint64_t ticket; /* ticket, first and n are the caller's */
  uint32_t first, n;
};

struct lls_links_options {
  struct lls_device *device;
  uint32_t self, n;   /* number of this process; number of processes */
  size_t bytes;       /* size of a piece */
  int64_t timeout_ns; /* longest time without progress of a piece under way */
};

/* [main] Returns 0; -ENOTSUP if links are unavailable on this device, or in this build;
 * or -ENOMEM. */
int lls_links_create(const struct lls_links_options *, struct lls_links **out,
                     struct lls_error *err);
void lls_links_destroy(struct lls_links *);

/* All functions below are one thread's. */

/* Returns true if there is a message for another process; take_word gets it for
 * sending. */
bool lls_links_has_word(const struct lls_links *, uint32_t to);
void lls_links_take_word(struct lls_links *, uint32_t to, struct lls_link_message *);
void lls_links_hear(struct lls_links *, uint32_t from, const struct lls_link_message *);

/* Returns memory for a piece to `to`; NULL: *linked says whether there is a link, whose
 * limit of pieces under way is reached, or none (yet). */
char *lls_links_room(struct lls_links *, uint32_t to, bool *linked);
/* Sends the piece in that memory. Returns its sequence, which the receiver needs. */
uint64_t lls_links_give(struct lls_links *, uint32_t to, size_t bytes);

/* Returns -ENOMEM if the piece is lost. */
int lls_links_expect(struct lls_links *, uint32_t from, const struct lls_linked *);
/* Gets a piece that has arrived; its data (NULL: lost) is valid until the next call.
 * Returns false if there is none now. */
bool lls_links_receive(struct lls_links *, uint32_t *from, struct lls_linked *,
                       const char **data);

/* Makes progress in both directions. Returns true if there was any. */
bool lls_links_go_on(struct lls_links *);
void lls_links_forget(struct lls_links *, uint32_t index);
/* Gets a sentence when a link to another process has opened, or never will. Returns
 * false if nothing has changed. */
bool lls_links_news(struct lls_links *, uint32_t *to, struct lls_error *text);

#endif
