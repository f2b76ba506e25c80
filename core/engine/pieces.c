/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of blocks to and from memory, for a link between processes: the device's
 * operations, behind the engine (engine.h). */
#include "core/engine/engine_internal.h"

bool lls_engine_packs(const struct lls_engine *e)
{
  const struct lls_device_ops *ops = e->device->ops;
  return ops->pool_pack != NULL && ops->pool_unpack != NULL;
}

int lls_engine_pack(struct lls_engine *e, const struct lls_pull *list, uint32_t n,
                    void *to)
{
  return e->device->ops->pool_pack(e->device, e->pool, list, n, to);
}

int lls_engine_unpack(struct lls_engine *e, const struct lls_pull *list, uint32_t n,
                      const void *from)
{
  return e->device->ops->pool_unpack(e->device, e->pool, list, n, from);
}

bool lls_engine_has_pieces(const struct lls_engine *e)
{
  return e->device->ops->piece_write != NULL && e->device->ops->piece_read != NULL;
}

void *lls_engine_pack_memory(struct lls_engine *e, enum lls_memory kind, size_t bytes)
{
  void *memory = NULL;
  int rc = e->device->ops->alloc(e->device, kind, bytes, &memory);
  return rc == 0 ? memory : NULL;
}

void lls_engine_release_pack_memory(struct lls_engine *e, enum lls_memory kind,
                                    void *memory)
{
  if (memory != NULL)
    e->device->ops->release(e->device, kind, memory);
}

int lls_engine_write_piece(struct lls_engine *e, void *piece, const void *from,
                           size_t bytes)
{
  return e->device->ops->piece_write(e->device, piece, from, bytes);
}

int lls_engine_read_piece(struct lls_engine *e, const void *piece, void *to, size_t bytes)
{
  return e->device->ops->piece_read(e->device, piece, to, bytes);
}
