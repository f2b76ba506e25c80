/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: a way for pieces from the device of one process to that of another, with
 * neither host's memory in between; NCCL from GPU to GPU (kernels/cuda/link.c). One end
 * sends and the other receives, all pieces in order; whoever wants the other direction
 * too opens another link. That both ends are opened and that each piece is asked for at
 * both is for the caller to see to, who has messages for it (core/cluster/links.h).
 *
 * Nothing here waits for the other end, nor for a step. [any one thread], but for
 * prepare.
 */
#ifndef LLS_DEVICE_LINK_H
#define LLS_DEVICE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

#define LLS_LINK_WINDOW 4 /* pieces at most that are given to an end and not done */

struct lls_device;
struct lls_device_link;

/* Both ends of a link are opened with it; it has the device of who made it. */
struct lls_link_name {
  unsigned char id[128], device[16];
};

struct lls_link_ops {
  const char *text; /* "NCCL" */
  /* [main] Whether there are any here, or why not. */
  int (*prepare)(struct lls_device *, struct lls_error *err);
  /* The end that sends makes it. */
  int (*make_name)(struct lls_device *, struct lls_link_name *, struct lls_error *err);
  /* Begins to; the end that receives goes first. -EXDEV: there is none from that device
   * to this one. */
  int (*open)(struct lls_device *, const struct lls_link_name *, bool sends,
              struct lls_device_link **out, struct lls_error *err);
  /* The next piece, of PIECES memory. It is the link's until it is done. */
  void (*give)(struct lls_device_link *, char *piece, size_t bytes);
  /* Goes on; how many pieces are done since the beginning. -EAGAIN: it is not open yet;
   * else it is of no use any more. */
  int (*go_on)(struct lls_device_link *, uint64_t *n_done, struct lls_error *err);
  /* Ends it, whatever is under way, whose memory is free then. */
  void (*close)(struct lls_device_link *);
};

#endif
