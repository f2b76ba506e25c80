/* SPDX-License-Identifier: Apache-2.0 */
/* Data shared by the files that implement links.h. */
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

/* One end of a link to or from another process. */
struct lls_link_end {
  enum lls_link_state state;
  bool sends, has_news;
  enum lls_link_word owed; /* the message to send to the other process */
  struct lls_error why;    /* reason for LLS_LINK_NEVER */
  struct lls_device_link *link;
  char *rooms[LLS_LINK_WINDOW];
  uint64_t n_given, n_done;
  uint64_t n_received; /* pieces handed out by receive: their memory is free */
  int64_t since_ns;    /* when pieces under way last made progress */
};

struct lls_link_expected {
  struct lls_link_expected *next;
  struct lls_linked piece;
};

struct lls_link_other {
  struct lls_link_end out, in;
  struct lls_link_name name;       /* name of the link to the other process */
  struct lls_link_expected *first; /* list for `in`, ordered by sequence */
  /* pieces for which `in` has provided memory */
  struct lls_linked coming[LLS_LINK_WINDOW];
};

struct lls_links {
  struct lls_device *device;
  const struct lls_link_ops *ops;
  uint32_t self, n;
  int64_t timeout_ns;
  struct lls_link_other *others; /* (n) */
  struct lls_link_end *lent;     /* the end whose memory receive has handed out */
};

/* ---- links.c */
/* Closes an end for good. */
void lls_link_stop(struct lls_links *, struct lls_link_end *);

/* ---- links_open.c */
void lls_link_offer(struct lls_links *, struct lls_link_other *);
/* Closes an end after a fault found here, and prepares the message to the other end. */
void lls_link_give_up(struct lls_links *, struct lls_link_end *,
                      const struct lls_error *why);

#endif
