/* SPDX-License-Identifier: Apache-2.0 */
/* The insides of links.h, for its parts. */
#ifndef LLS_CLUSTER_LINKS_INTERNAL_H
#define LLS_CLUSTER_LINKS_INTERNAL_H

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/cluster/links.h"

enum lls_link_state {
  LLS_LINK_UNTRIED,
  LLS_LINK_OFFERED,
  LLS_LINK_OPENING,
  LLS_LINK_OPEN,
  LLS_LINK_NEVER
};

/* A link to another process, or from it. */
struct lls_link_end {
  enum lls_link_state state;
  bool sends, has_news;
  enum lls_link_word owed; /* to the other process */
  struct lls_error why;    /* LLS_LINK_NEVER */
  struct lls_device_link *link;
  char *rooms[LLS_LINK_WINDOW];
  uint64_t n_given, n_done;
  uint64_t n_received; /* that were handed out: their rooms are free */
  int64_t since_ns;    /* nothing was done; of what is under way */
};

struct lls_link_expected {
  struct lls_link_expected *next;
  struct lls_linked piece;
};

struct lls_link_other {
  struct lls_link_end out, in;
  struct lls_link_name name;                 /* of the link to it */
  struct lls_link_expected *first;           /* of `in`, by their sequence */
  struct lls_linked coming[LLS_LINK_WINDOW]; /* that `in` was given room for */
};

struct lls_links {
  struct lls_device *device;
  const struct lls_link_ops *ops;
  uint32_t self, n;
  int64_t timeout_ns;
  struct lls_link_other *others; /* (n) */
  struct lls_link_end *lent;     /* whose room was handed out by receive */
};

/* ---- links.c */
/* It is closed, and is not opened again. */
void lls_link_stop(struct lls_links *, struct lls_link_end *);

/* ---- links_open.c */
void lls_link_offer(struct lls_links *, struct lls_link_other *);
/* Found here, and said to the other end. */
void lls_link_give_up(struct lls_links *, struct lls_link_end *,
                      const struct lls_error *why);

#endif
