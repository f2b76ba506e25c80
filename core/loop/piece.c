/* SPDX-License-Identifier: Apache-2.0 */
/* See piece.h. */
#include "core/loop/piece.h"

#include <errno.h>
#include <string.h>

#include "core/base/least.h"
#include "core/channel/channel.h"

#define PIECE_BYTES ((size_t)1 << 20) /* but at least a block of either element */

static void *take_memory(void *context, size_t bytes)
{
  const struct lls_pieces *p = context;
  return lls_engine_pack_memory(p->engine, p->memory, bytes);
}

static void give_back_memory(void *context, void *memory)
{
  const struct lls_pieces *p = context;
  lls_engine_release_pack_memory(p->engine, p->memory, memory);
}

static size_t size_of(const struct lls_pool_shape *pool)
{
  size_t bytes = lls_most_size(lls_unit_bytes(pool), PIECE_BYTES);
  return lls_most_size(bytes, lls_block_bytes(pool, LLS_ELEMENT_INT8));
}

int lls_pieces_open(struct lls_pieces *p, struct lls_engine *engine,
                    struct lls_channel *channel, bool on_gpu)
{
  *p = (struct lls_pieces){
      .engine = engine,
      .channel = channel,
      .memory = on_gpu ? LLS_MEMORY_PIECES : LLS_MEMORY_PINNED,
      .bytes = size_of(lls_engine_pool_shape(engine)),
  };
  if (on_gpu) {
    p->head = lls_engine_pack_memory(engine, LLS_MEMORY_PINNED, sizeof *p->head);
    if (p->head == NULL)
      return -ENOMEM;
  }
  const struct lls_channel_memory memory = {
      .context = p, .take = take_memory, .give_back = give_back_memory};
  return channel->ops->open_bulk(channel, sizeof *p->head + p->bytes, &memory);
}

void lls_pieces_close(struct lls_pieces *p)
{
  p->channel->ops->close_bulk(p->channel);
  lls_engine_release_pack_memory(p->engine, LLS_MEMORY_PINNED, p->head);
  p->head = NULL;
}

void lls_pieces_begin(struct lls_pieces *p)
{
  if (p->head != NULL)
    lls_engine_write_piece(p->engine, NULL, NULL, 0);
}

/* -EIO */
static int write_head(struct lls_pieces *p, const struct lls_piece *head, char *room)
{
  if (p->head == NULL) {
    memcpy(room, head, sizeof *head);
    return 0;
  }
  *p->head = *head;
  return lls_engine_write_piece(p->engine, room, p->head, sizeof *head);
}

size_t lls_pieces_pack(struct lls_pieces *p, const struct lls_piece *head,
                       const struct lls_pull *list, char *room)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(p->engine);
  size_t bytes = sizeof *head;
  int rc = write_head(p, head, room);
  if (rc == 0)
    rc = lls_engine_pack(p->engine, list, head->n, room + bytes);
  for (uint32_t i = 0; i < head->n && rc == 0; i++)
    bytes += lls_pulled_bytes(pool, &list[i]);
  return bytes;
}

bool lls_pieces_read(struct lls_pieces *p, const struct lls_channel_message *m,
                     struct lls_piece *head)
{
  if (m->bytes < sizeof *head)
    return false;
  if (p->head == NULL) {
    memcpy(head, m->data, sizeof *head);
    return true;
  }
  int rc = lls_engine_read_piece(p->engine, m->data, p->head, sizeof *head);
  *head = *p->head;
  return rc == 0;
}

int lls_pieces_unpack(struct lls_pieces *p, const struct lls_channel_message *m,
                      const struct lls_piece *head, const struct lls_pull *list)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(p->engine);
  size_t bytes = sizeof *head;
  for (uint32_t i = 0; i < head->n; i++)
    bytes += lls_pulled_bytes(pool, &list[i]);
  if (bytes != m->bytes)
    return -EIO;
  return lls_engine_unpack(p->engine, list, head->n, m->data + sizeof *head);
}
