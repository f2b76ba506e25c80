/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link transfers pieces from the device of one process to that of another, without
 * passing through host memory: NCCL from GPU to GPU (kernels/cuda/link.c). One end
 * sends and the other receives, all pieces in order; the opposite direction needs
 * another link. The caller, which can send messages (core/cluster/links.h), must ensure
 * that both ends are opened, and that each piece is given at both ends.
 *
 * No function here waits for the other end, or for a step. All are [any one thread],
 * except prepare.
 */
#ifndef LLS_DEVICE_LINK_H
#define LLS_DEVICE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

#define LLS_LINK_WINDOW 4 /* most pieces given to an end and not yet done */

struct lls_device;
struct lls_device_link;

/* Both ends of a link are opened with the same name; it contains the sender's device. */
struct lls_link_name {
  unsigned char id[128], device[16];
};

struct lls_link_ops {
  const char *text; /* "NCCL" */
  /* [main] Returns 0 if links are available here, or the reason why not. */
  int (*prepare)(struct lls_device *, struct lls_error *err);
  /* Makes the name; called at the sending end. */
  int (*make_name)(struct lls_device *, struct lls_link_name *, struct lls_error *err);
  /* Begins to open an end, the receiving one first. Returns -EXDEV if there is no link
   * from that device to this one. */
  int (*open)(struct lls_device *, const struct lls_link_name *, bool sends,
              struct lls_device_link **out, struct lls_error *err);
  /* Passes the next piece, in PIECES memory, which the link uses until the piece is
   * done. */
  void (*give)(struct lls_device_link *, char *piece, size_t bytes);
  /* Makes progress; *n_done is the number of pieces done since the beginning. Returns
   * -EAGAIN if the link is not open yet; after any other error it is unusable. */
  int (*go_on)(struct lls_device_link *, uint64_t *n_done, struct lls_error *err);
  /* Ends the link. Pieces under way are abandoned, and their memory may be used again. */
  void (*close)(struct lls_device_link *);
};

#endif
