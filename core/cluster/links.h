/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links of a process to the others (core/device/link.h), by each of which pieces go
 * to one of them or come from it. They are opened one by one, when the first piece is to
 * go there; until then, and if that fails, pieces go as they do without links.
 *
 *   who sends                      who receives
 *     room, nothing there: OFFER -->
 *                                  opens its end; cannot: REFUSED
 *                              <-- TAKEN
 *     opens its end
 *     give, `sequence` ----------> expect: gives its end room for it, in order
 *                                  receive
 *
 * A link that breaks is not tried again: who finds it broken says so, REFUSED or
 * WITHDRAWN, both close their end, and what was under way is received as lost, for which
 * each piece's own word has to come, before that or after it. So is the one that is on
 * its way for too long. None of these words need come in order.
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

/* Something that is to come by a link. */
struct lls_linked {
  uint64_t sequence; /* of its link's pieces */
  uint64_t bytes;
  uint64_t ticket; /* these are the caller's */
  uint32_t first, n;
};

struct lls_links_options {
  struct lls_device *device;
  uint32_t self, n;   /* this process, of so many */
  size_t bytes;       /* of a piece */
  int64_t timeout_ns; /* of one that is on its way */
};

/* [main] -ENOTSUP: there are none on this device, or here; -ENOMEM. */
int lls_links_create(const struct lls_links_options *, struct lls_links **out,
                     struct lls_error *err);
void lls_links_destroy(struct lls_links *);

/* The rest is one thread's. */

/* Is there a word for another process? It is said once it was taken. */
bool lls_links_has_word(const struct lls_links *, uint32_t to);
void lls_links_take_word(struct lls_links *, uint32_t to, struct lls_link_message *);
void lls_links_hear(struct lls_links *, uint32_t from, const struct lls_link_message *);

/* Room for a piece to `to`; NULL: by `linked` there is a link, and as much as may be is
 * under way; or there is none (yet). */
char *lls_links_room(struct lls_links *, uint32_t to, bool *linked);
/* Sends what is in that room; its sequence, which the other one has to be told. */
uint64_t lls_links_give(struct lls_links *, uint32_t to, size_t bytes);

/* -ENOMEM: it is lost. */
int lls_links_expect(struct lls_links *, uint32_t from, const struct lls_linked *);
/* One that has come, its data (NULL: lost) valid until the next call. False: none now. */
bool lls_links_receive(struct lls_links *, uint32_t *from, struct lls_linked *,
                       const char **data);

/* Both directions, whatever was under way. True: something has moved. */
bool lls_links_go_on(struct lls_links *);
void lls_links_forget(struct lls_links *, uint32_t index);
/* The way to another has opened, or never will: a sentence. False: no news. */
bool lls_links_news(struct lls_links *, uint32_t *to, struct lls_error *text);

#endif
