/* SPDX-License-Identifier: Apache-2.0 */
/* See bulk.h. */
#include "core/loop/bulk.h"

#include <errno.h>
#include <string.h>

#include "core/base/least.h"
#include "core/channel/channel.h"

#define PIECE_BYTES ((size_t)1 << 20) /* but at least a block of either element */

static void *take_memory(void *context, size_t bytes)
{
  const struct lls_bulk *b = context;
  return lls_engine_pack_memory(b->engine, b->memory, bytes);
}

static void give_back_memory(void *context, void *memory)
{
  const struct lls_bulk *b = context;
  lls_engine_release_pack_memory(b->engine, b->memory, memory);
}

static size_t size_of(const struct lls_pool_shape *pool)
{
  size_t bytes = lls_most_size(lls_unit_bytes(pool), PIECE_BYTES);
  return lls_most_size(bytes, lls_block_bytes(pool, LLS_ELEMENT_INT8));
}

int lls_bulk_open(struct lls_bulk *b, struct lls_engine *engine,
                  struct lls_channel *channel, bool on_gpu)
{
  *b = (struct lls_bulk){
      .engine = engine,
      .channel = channel,
      .memory = on_gpu ? LLS_MEMORY_PIECES : LLS_MEMORY_PINNED,
      .bytes = size_of(lls_engine_pool_shape(engine)),
  };
  if (on_gpu) {
    b->head = lls_engine_pack_memory(engine, LLS_MEMORY_PINNED, sizeof *b->head);
    if (b->head == NULL)
      return -ENOMEM;
  }
  const struct lls_channel_memory memory = {
      .context = b,
      .take = take_memory,
      .give_back = give_back_memory,
      .at_once = on_gpu, /* the cache's neighbours in its memory */
  };
  return channel->ops->open_bulk(channel, sizeof *b->head + b->bytes, &memory);
}

void lls_bulk_close(struct lls_bulk *b)
{
  b->channel->ops->close_bulk(b->channel);
  lls_engine_release_pack_memory(b->engine, LLS_MEMORY_PINNED, b->head);
  b->head = NULL;
}

void lls_bulk_begin(struct lls_bulk *b)
{
  if (b->head != NULL)
    lls_engine_write_piece(b->engine, NULL, NULL, 0);
}

/* -EIO */
static int write_head(struct lls_bulk *b, const struct lls_piece *head, char *room)
{
  if (b->head == NULL) {
    memcpy(room, head, sizeof *head);
    return 0;
  }
  *b->head = *head;
  return lls_engine_write_piece(b->engine, room, b->head, sizeof *head);
}

size_t lls_bulk_pack(struct lls_bulk *b, const struct lls_piece *head,
                     const struct lls_pull *list, char *room)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(b->engine);
  size_t bytes = sizeof *head;
  int rc = write_head(b, head, room);
  if (rc == 0)
    rc = lls_engine_pack(b->engine, list, head->n, room + bytes);
  for (uint32_t i = 0; i < head->n && rc == 0; i++)
    bytes += lls_pulled_bytes(pool, &list[i]);
  return bytes;
}

bool lls_bulk_read(struct lls_bulk *b, const struct lls_channel_message *m,
                   struct lls_piece *head)
{
  if (m->bytes < sizeof *head)
    return false;
  if (b->head == NULL) {
    memcpy(head, m->data, sizeof *head);
    return true;
  }
  int rc = lls_engine_read_piece(b->engine, m->data, b->head, sizeof *head);
  *head = *b->head;
  return rc == 0;
}

int lls_bulk_unpack(struct lls_bulk *b, const struct lls_channel_message *m,
                    const struct lls_piece *head, const struct lls_pull *list)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(b->engine);
  size_t bytes = sizeof *head;
  for (uint32_t i = 0; i < head->n; i++)
    bytes += lls_pulled_bytes(pool, &list[i]);
  if (bytes != m->bytes)
    return -EIO;
  return lls_engine_unpack(b->engine, list, head->n, m->data + sizeof *head);
}
