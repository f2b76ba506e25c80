/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A manager's own state as one blob. The manager lists the parts once, in a function
 * that passes each part to a walk: the walk counts them, copies them out or copies them
 * in, and detects the end of the blob. State that is copied in must pass an audit
 * before it is used.
 */
#ifndef LLS_POL_STATE_H
#define LLS_POL_STATE_H

#include <llmserve/cache.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_state_walk {
  char *out;      /* or NULL */
  const char *in; /* the bytes to read, or NULL */
  size_t done, bytes;
};

/* Passes all parts, in order. When reading, returns -errno if the parts contradict each
 * other. */
typedef int lls_pol_state_parts(void *manager, struct lls_pol_state_walk *);

static inline bool lls_pol_state_is_read(const struct lls_pol_state_walk *w)
{
  return w->in != NULL;
}

/* Returns true if the blob has ended early; later parts are then unchanged. */
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

/* Exports all parts after `before` bytes, which the caller fills. */
static inline int lls_pol_state_export(void *manager, lls_pol_state_parts *parts,
                                       size_t before, uint32_t version,
                                       struct lls_blob *out)
{
  struct lls_pol_state_walk count, w;
  memset(&count, 0, sizeof count);
  memset(&w, 0, sizeof w);
  parts(manager, &count);
  char *data = (char *)malloc(before + count.done);
  if (data == NULL)
    return -ENOMEM;
  w.out = data + before;
  parts(manager, &w);
  out->version = version;
  out->bytes = before + count.done;
  out->data = data;
  return 0;
}

/* After a failure the manager's state is inconsistent. */
static inline int lls_pol_state_import(void *manager, lls_pol_state_parts *parts,
                                       const void *from, size_t bytes)
{
  struct lls_pol_state_walk w;
  memset(&w, 0, sizeof w);
  w.in = (const char *)from;
  w.bytes = bytes;
  int rc = parts(manager, &w);
  return rc == 0 && w.done != bytes ? -EINVAL : rc;
}

/* Returns true if a manager's own state begins with this writer and this pool. */
static inline bool lls_pol_state_is_of(const char *at, size_t bytes, const void *writer,
                                       size_t writer_bytes, const void *pool,
                                       size_t pool_bytes)
{
  return bytes >= writer_bytes + pool_bytes && memcmp(at, writer, writer_bytes) == 0 &&
         memcmp(at + writer_bytes, pool, pool_bytes) == 0;
}

static inline void lls_pol_state_ignore_line(void *context, const char *line)
{
  (void)context, (void)line;
}

static inline void lls_pol_state_ignore_number(void *context, const char *name,
                                               double value)
{
  (void)context, (void)name, (void)value;
}

/* Returns the result of an import: the audit's error, if it finds a fault. */
static inline int lls_pol_state_audit(void *manager, int rc,
                                      int (*audit)(void *manager,
                                                   const struct lls_sink *))
{
  const struct lls_sink nowhere = {NULL, lls_pol_state_ignore_number,
                                   lls_pol_state_ignore_line};
  return rc == 0 ? audit(manager, &nowhere) : rc;
}

#ifdef __cplusplus
}
#endif

#endif
