/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of another engine: whether this one can copy them. */
#include <errno.h>

#include "core/engine/engine_internal.h"

const char *lls_engine_why_no_pull(const struct lls_engine *e,
                                   const struct lls_engine *from)
{
  if (lls_engine_is_shared(e) || lls_engine_is_shared(from))
    return "each is shared out to ranks";
  if (e->device->ops != from->device->ops || e->device->ops->pool_pull == NULL)
    return "their devices cannot reach each other's memory";
  if (!lls_pools_match(&e->pool_shape, &from->pool_shape))
    return "their blocks are not alike";
  return NULL;
}

int lls_engine_check_pulls(const struct lls_engine *e,
                           const struct lls_engine_batch *batch, struct lls_error *err)
{
  for (uint32_t i = 0; i < batch->n_pulls; i++) {
    const char *why = lls_engine_why_no_pull(e, batch->pulls[i].from);
    if (why != NULL)
      return lls_fail(err, -ENOTSUP, "blocks of another instance: %s", why);
  }
  return 0;
}
