/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a fixed size and without pointers, as export_state and import_state pass it.
 * A cache manager, whose state has parts of any size, has state.h.
 */
#ifndef LLS_POL_BLOB_H
#define LLS_POL_BLOB_H

#include <llmserve/host.h>
#include <llmserve/plugin.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exports a copy of the state. Returns 0 or -ENOMEM. */
static inline int lls_pol_blob_write(struct lls_blob *out, uint32_t version,
                                     const void *state, size_t bytes)
{
  void *copy = malloc(bytes);
  if (copy == NULL)
    return -ENOMEM;
  memcpy(copy, state, bytes);
  out->version = version;
  out->bytes = bytes;
  out->data = copy;
  return 0;
}

/* Copies the state out of a blob. Returns 0; -ENOTSUP for another version, -EINVAL for
 * another size, with a sentence for the host and `state` unchanged. The caller checks the
 * values. */
static inline int lls_pol_blob_read(const struct lls_blob *blob, uint32_t version,
                                    void *state, size_t bytes,
                                    const struct lls_host *host)
{
  if (blob->version != version)
    return host->fail(host->context, -ENOTSUP, "version %u expected, %u found", version,
                      blob->version);
  if (blob->bytes != bytes)
    return host->fail(host->context, -EINVAL, "%zu bytes expected, %zu found", bytes,
                      blob->bytes);
  memcpy(state, blob->data, bytes);
  return 0;
}

#ifdef __cplusplus
}
#endif

#endif
