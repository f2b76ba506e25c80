/* SPDX-License-Identifier: Apache-2.0 */
/* See bulk.h. */
#include "core/cluster/bulk.h"

#include <errno.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/least.h"
#include "core/channel/channel.h"
#include "core/cluster/links.h"
#include "core/engine/engine.h"

/* bytes of a piece, or one block of each element type if that is more */
#define PIECE_BYTES ((size_t)1 << 20)

enum kind { NUMBERS, LINKED, LINK_WORD };

/* Begins each message of the channel. */
struct head {
  uint64_t kind;
  struct lls_piece piece;
  uint64_t sequence, bytes; /* LINKED */
};

/* The longest message that is not a piece. */
struct lls_bulk_word {
  struct head head;
  struct lls_link_message link;
};

/* ---- creation and end -------------------------------------------------------------- */

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
  size_t bytes = lls_most_size(lls_form_bytes(pool, LLS_FORM_KV), PIECE_BYTES);
  bytes = lls_most_size(bytes, lls_form_bytes(pool, LLS_FORM_INT8));
  for (uint32_t i = 0; i < lls_pool_groups(pool); i++)
    bytes = lls_most_size(bytes, (size_t)pool->group_state[i]);
  return bytes;
}

static int open_links(struct lls_bulk *b, const struct lls_fetches_options *o,
                      struct lls_error *err)
{
  const struct lls_links_options with = {.device = lls_engine_device(b->engine),
                                         .self = b->channel->self,
                                         .n = b->channel->n,
                                         .bytes = b->bytes,
                                         .timeout_ns = o->timeout_ns};
  if (o->links == LLS_LINKS_NONE)
    return 0;
  if (o->links == LLS_LINKS_NEEDED)
    return lls_links_create(&with, &b->links, err);
  int rc = lls_links_create(&with, &b->links, &b->no_links);
  if (rc < 0 && b->no_links.text[0] == '\0')
    lls_fail(&b->no_links, 0, "%s", lls_error_text(NULL, rc));
  return 0;
}

static int open_channel(struct lls_bulk *b, bool on_gpu)
{
  if (on_gpu) {
    b->word = lls_engine_pack_memory(b->engine, LLS_MEMORY_PINNED, sizeof *b->word);
    if (b->word == NULL)
      return -ENOMEM;
  }
  const struct lls_channel_memory memory = {
      .context = b,
      .take = take_memory,
      .give_back = give_back_memory,
      /* memory for all pieces at once if it is on the GPU, next to the cache's */
      .at_once = on_gpu,
  };
  size_t bytes = lls_most_size(sizeof(struct head) + b->bytes, sizeof *b->word);
  return b->channel->ops->open_bulk(b->channel, bytes, &memory);
}

int lls_bulk_open(struct lls_bulk *b, const struct lls_fetches_options *o,
                  struct lls_error *err)
{
  bool on_gpu = o->gpu_aware && lls_engine_has_pieces(o->engine);
  *b = (struct lls_bulk){
      .engine = o->engine,
      .channel = o->channel,
      .memory = on_gpu ? LLS_MEMORY_PIECES : LLS_MEMORY_PINNED,
      .bytes = size_of(lls_engine_pool_shape(o->engine)),
  };
  int rc = open_channel(b, on_gpu);
  if (rc < 0)
    return lls_fail(err, rc, "out of memory for data in transfer between processes");
  return open_links(b, o, err);
}

void lls_bulk_close(struct lls_bulk *b)
{
  lls_links_destroy(b->links);
  b->links = NULL;
  b->channel->ops->close_bulk(b->channel);
  lls_engine_release_pack_memory(b->engine, LLS_MEMORY_PINNED, b->word);
  b->word = NULL;
}

void lls_bulk_begin(struct lls_bulk *b)
{
  if (b->word != NULL)
    lls_engine_write_piece(b->engine, NULL, NULL, 0);
}

/* ---- heads ------------------------------------------------------------------------- */

/* Returns 0 or -EIO. */
static int write_front(struct lls_bulk *b, char *room, const void *data, size_t bytes)
{
  if (b->word == NULL) {
    memcpy(room, data, bytes);
    return 0;
  }
  memcpy(b->word, data, bytes);
  return lls_engine_write_piece(b->engine, room, b->word, bytes);
}

/* Reads a head or a word. Returns false if the message is too short. */
static bool read_front(struct lls_bulk *b, const struct lls_channel_message *m,
                       void *data, size_t bytes)
{
  if (m->bytes < bytes)
    return false;
  if (b->word == NULL) {
    memcpy(data, m->data, bytes);
    return true;
  }
  int rc = lls_engine_read_piece(b->engine, m->data, b->word, bytes);
  memcpy(data, b->word, bytes);
  return rc == 0;
}

/* ---- sending ----------------------------------------------------------------------- */

static size_t numbers_of(const struct lls_bulk *b, const struct lls_piece *piece,
                         const struct lls_pull *list)
{
  size_t bytes = 0;
  for (uint32_t i = 0; i < piece->n; i++)
    bytes += lls_pulled_bytes(lls_engine_pool_shape(b->engine), &list[i]);
  return bytes;
}

/* If the contents cannot be packed the head is sent alone, which the receiver detects. */
static void send_by_channel(struct lls_bulk *b, uint32_t to, char *room,
                            const struct lls_piece *piece, const struct lls_pull *list)
{
  const struct head head = {.kind = NUMBERS, .piece = *piece};
  size_t bytes = sizeof head;
  int rc = write_front(b, room, &head, sizeof head);
  if (rc == 0)
    rc = lls_engine_pack(b->engine, list, piece->n, room + sizeof head);
  if (rc == 0)
    bytes += numbers_of(b, piece, list);
  b->channel->ops->bulk_send(b->channel, to, bytes);
}

/* Returns false if the contents cannot be packed. */
static bool send_by_link(struct lls_bulk *b, uint32_t to, char *linked, char *room,
                         const struct lls_piece *piece, const struct lls_pull *list)
{
  struct head head = {
      .kind = LINKED, .piece = *piece, .bytes = numbers_of(b, piece, list)};
  if (lls_engine_pack(b->engine, list, piece->n, linked) < 0)
    return false;
  head.sequence = lls_links_give(b->links, to, head.bytes);
  write_front(b, room, &head, sizeof head);
  b->channel->ops->bulk_send(b->channel, to, sizeof head);
  return true;
}

bool lls_bulk_send(struct lls_bulk *b, uint32_t to, const struct lls_piece *piece,
                   const struct lls_pull *list)
{
  char *room = b->channel->ops->bulk_room(b->channel, to), *linked = NULL;
  bool has_link = false;
  if (room == NULL)
    return false;
  if (b->links != NULL && piece->n > 0)
    linked = lls_links_room(b->links, to, &has_link);
  if (has_link && linked == NULL)
    return false;
  if (!has_link || !send_by_link(b, to, linked, room, piece, list))
    send_by_channel(b, to, room, piece, list);
  return true;
}

/* ---- receiving --------------------------------------------------------------------- */

static void hear(struct lls_bulk *b, const struct lls_channel_message *m)
{
  struct lls_bulk_word word;
  memset(&word, 0, sizeof word);
  if (b->links != NULL && read_front(b, m, &word, sizeof word))
    lls_links_hear(b->links, m->from, &word.link);
}

static bool receive_by_link(struct lls_bulk *b, struct lls_arrived *out)
{
  struct lls_linked linked;
  if (b->links == NULL ||
      !lls_links_receive(b->links, &out->from, &linked, &out->numbers))
    return false;
  out->piece = (struct lls_piece){linked.ticket, linked.first, linked.n};
  out->bytes = linked.bytes;
  return true;
}

/* Returns true if the message is a piece for the caller. */
static bool take(struct lls_bulk *b, const struct lls_channel_message *m,
                 const struct head *head, struct lls_arrived *out)
{
  const struct lls_linked linked = {.sequence = head->sequence,
                                    .bytes = head->bytes,
                                    .ticket = head->piece.ticket,
                                    .first = head->piece.first,
                                    .n = head->piece.n};
  *out = (struct lls_arrived){.from = m->from, .piece = head->piece};
  switch (head->kind) {
  case NUMBERS:
    out->numbers = m->data + sizeof *head;
    out->bytes = m->bytes - sizeof *head;
    return true;
  case LINKED:
    return b->links == NULL || head->bytes > b->bytes ||
           lls_links_expect(b->links, m->from, &linked) < 0;
  default:
    hear(b, m);
    return false;
  }
}

bool lls_bulk_receive(struct lls_bulk *b, struct lls_arrived *out)
{
  struct lls_channel_message m;
  if (receive_by_link(b, out))
    return true;
  while (b->channel->ops->bulk_receive(b->channel, &m)) {
    struct head head;
    memset(&head, 0, sizeof head);
    if (read_front(b, &m, &head, sizeof head) && take(b, &m, &head, out))
      return true;
  }
  return false;
}

int lls_bulk_unpack(struct lls_bulk *b, const struct lls_arrived *a,
                    const struct lls_pull *list)
{
  if (a->numbers == NULL || a->bytes != numbers_of(b, &a->piece, list))
    return -EIO;
  return lls_engine_unpack(b->engine, list, a->piece.n, a->numbers);
}

/* ---- making progress --------------------------------------------------------------- */

static bool say(struct lls_bulk *b, uint32_t to)
{
  struct lls_bulk_word word = {.head = {.kind = LINK_WORD}};
  if (!lls_links_has_word(b->links, to))
    return false;
  char *room = b->channel->ops->bulk_room(b->channel, to);
  if (room == NULL)
    return false; /* sent in a later call */
  lls_links_take_word(b->links, to, &word.link);
  write_front(b, room, &word, sizeof word);
  b->channel->ops->bulk_send(b->channel, to, sizeof word);
  return true;
}

bool lls_bulk_go_on(struct lls_bulk *b)
{
  if (b->links == NULL)
    return false;
  bool any = lls_links_go_on(b->links);
  for (uint32_t to = 0; to < b->channel->n; to++)
    while (say(b, to))
      any = true;
  return any;
}

void lls_bulk_forget(struct lls_bulk *b, uint32_t index)
{
  if (b->links != NULL)
    lls_links_forget(b->links, index);
}
