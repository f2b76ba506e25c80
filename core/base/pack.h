/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs values and arrays into one buffer for another process of the same build, which
 * unpacks them in the same order. Their bytes are copied as they lie in memory. A failure
 * sticks: no memory to pack more, or no data left to unpack.
 */
#ifndef LLS_BASE_PACK_H
#define LLS_BASE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct lls_pack {
  /* (n) used of (room) bytes from malloc; the user of the packed data frees it */
  char *data;
  size_t n, room;
  bool failed;
};

struct lls_unpack {
  const char *data; /* (n) */
  size_t n, at;
  bool failed;
};

static inline void lls_pack_put(struct lls_pack *p, const void *from, size_t bytes)
{
  if (p->failed || bytes == 0)
    return;
  if (p->n + bytes > p->room) {
    size_t room = 2 * (p->n + bytes) + 128;
    char *data = realloc(p->data, room);
    p->failed = data == NULL;
    if (p->failed)
      return;
    p->data = data;
    p->room = room;
  }
  memcpy(p->data + p->n, from, bytes);
  p->n += bytes;
}

/* Returns the next `bytes`, or NULL. They are aligned only as far as the bytes packed
 * before them. */
static inline const void *lls_unpack_bytes(struct lls_unpack *u, size_t bytes)
{
  u->failed |= bytes > u->n - u->at;
  if (u->failed)
    return NULL;
  u->at += bytes;
  return u->data + u->at - bytes;
}

static inline void lls_unpack_take(struct lls_unpack *u, void *to, size_t bytes)
{
  const void *from = lls_unpack_bytes(u, bytes);
  if (from != NULL && bytes > 0)
    memcpy(to, from, bytes);
}

/* Names the parts of a message once for both of its ends: the sender packs them, the
 * receiver unpacks them into the same places. One of the pointers is NULL. */
struct lls_pack_walk {
  struct lls_pack *out;
  struct lls_unpack *in;
};

static inline void lls_pack_walk_bytes(const struct lls_pack_walk *w, void *at,
                                       size_t bytes)
{
  if (w->out != NULL)
    lls_pack_put(w->out, at, bytes);
  else
    lls_unpack_take(w->in, at, bytes);
}

/* The receiver does not copy this part: it gets its address in the message, as that of
 * lls_unpack_bytes. */
static inline void lls_pack_walk_array(const struct lls_pack_walk *w, const void **at,
                                       size_t bytes)
{
  if (w->out != NULL)
    lls_pack_put(w->out, *at, bytes);
  else
    *at = lls_unpack_bytes(w->in, bytes);
}

#define LLS_WALK(W, THING)   lls_pack_walk_bytes(W, &(THING), sizeof(THING))
#define LLS_PACK(P, THING)   lls_pack_put(P, &(THING), sizeof(THING))
#define LLS_UNPACK(U, THING) lls_unpack_take(U, &(THING), sizeof(THING))

#endif
