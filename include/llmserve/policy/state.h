/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A manager's own state as one blob. It names its parts once, in a function that passes
 * each to a walk: the walk counts them, copies them out or copies them in, and knows by
 * itself where the blob ends. What is copied in is believed only after an audit.
 */
#ifndef LLS_POL_STATE_H
#define LLS_POL_STATE_H

#include <llmserve/cache.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct lls_pol_state_walk {
  char *out;      /* or NULL */
  const char *in; /* or NULL; of `bytes` */
  size_t done, bytes;
};

/* Passes all parts, in order; reading, -errno where they contradict each other. */
typedef int lls_pol_state_parts(void *manager, struct lls_pol_state_walk *);

static inline bool lls_pol_state_is_read(const struct lls_pol_state_walk *w)
{
  return w->in != NULL;
}

/* The blob has ended: from there on, parts are as they were. */
static inline bool lls_pol_state_is_torn(const struct lls_pol_state_walk *w)
{
  return w->in != NULL && w->done > w->bytes;
}

static inline void lls_pol_state_pass(struct lls_pol_state_walk *w, void *data,
                                      size_t bytes)
{
  if (w->out != NULL)
    memcpy(w->out + w->done, data, bytes);
  else if (w->in != NULL && w->done <= w->bytes && bytes <= w->bytes - w->done)
    memcpy(data, w->in + w->done, bytes);
  w->done += bytes;
}

/* All parts behind `before` bytes, which are the caller's to fill. */
static inline int lls_pol_state_export(void *manager, lls_pol_state_parts *parts,
                                       size_t before, uint32_t version,
                                       struct lls_blob *out)
{
  struct lls_pol_state_walk count = {0}, w = {0};
  parts(manager, &count);
  char *data = malloc(before + count.done);
  if (data == NULL)
    return -ENOMEM;
  w.out = data + before;
  parts(manager, &w);
  *out =
      (struct lls_blob){.version = version, .bytes = before + count.done, .data = data};
  return 0;
}

/* Leaves the manager in disorder when it fails. */
static inline int lls_pol_state_import(void *manager, lls_pol_state_parts *parts,
                                       const void *from, size_t bytes)
{
  struct lls_pol_state_walk w = {.in = from, .bytes = bytes};
  int rc = parts(manager, &w);
  return rc == 0 && w.done != bytes ? -EINVAL : rc;
}

/* Does a manager's own state begin so: with its writer, then the pool it was for? */
static inline bool state_is_of(const char *at, size_t bytes, const void *writer,
                               size_t writer_bytes, const void *pool, size_t pool_bytes)
{
  return bytes >= writer_bytes + pool_bytes && memcmp(at, writer, writer_bytes) == 0 &&
         memcmp(at + writer_bytes, pool, pool_bytes) == 0;
}

static inline void state_ignore_line(void *context, const char *line)
{
  (void)context, (void)line;
}

/* The result of an import: that of the audit, if it finds something wrong. */
static inline int state_audit(void *manager, int rc,
                              int (*audit)(void *manager, const struct lls_sink *))
{
  static const struct lls_sink nowhere = {.text = state_ignore_line};
  return rc == 0 ? audit(manager, &nowhere) : rc;
}

#endif
