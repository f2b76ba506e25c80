/* SPDX-License-Identifier: Apache-2.0 */
/* See serving.h. */
#include "core/cluster/serving.h"

#include <stdlib.h>
#include <string.h>

#include "core/engine/engine.h"

struct lls_serving {
  struct lls_serving *next;
  uint32_t from, n, n_sent;
  uint64_t ticket;
  bool empty;             /* no blocks are ordered, but an empty piece (apart.h) */
  struct lls_pull list[]; /* (n) the source side of each pull */
};

/* An empty piece that is owed is enough, however often it is ordered. */
static bool owes_empty(const struct lls_serving *s, uint32_t from)
{
  while (s != NULL && !(s->empty && s->from == from))
    s = s->next;
  return s != NULL;
}

bool lls_serving_add(struct lls_serving **all, uint32_t from, uint64_t ticket,
                     struct lls_unpack *u)
{
  uint32_t n = 0;
  LLS_UNPACK(u, n);
  const void *list = lls_unpack_bytes(u, (size_t)n * sizeof(struct lls_pull));
  struct lls_serving *s = list != NULL ? malloc(sizeof *s + n * sizeof *s->list) : NULL;
  struct lls_serving **last = all;
  if (s == NULL)
    return false;
  if (n == 0 && owes_empty(*all, from)) {
    free(s);
    return true;
  }
  *s = (struct lls_serving){.from = from, .n = n, .ticket = ticket, .empty = n == 0};
  memcpy(s->list, list, n * sizeof *s->list);
  while (*last != NULL)
    last = &(*last)->next;
  *last = s;
  return true;
}

static void end(struct lls_serving **at)
{
  struct lls_serving *s = *at;
  *at = s->next;
  free(s);
}

void lls_serving_end(struct lls_serving **all, uint32_t from, uint64_t ticket)
{
  for (struct lls_serving **at = all; *at != NULL; at = &(*at)->next)
    if ((*at)->from == from && (*at)->ticket == ticket) {
      end(at);
      return;
    }
}

void lls_serving_lose(struct lls_serving **all, uint32_t from)
{
  for (struct lls_serving **at = all; *at != NULL;)
    if ((*at)->from == from)
      end(at);
    else
      at = &(*at)->next;
}

/* Sends as many of the order's next pulls as fit into a piece. */
static bool send_piece(struct lls_bulk *b, struct lls_serving *s)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(b->engine);
  struct lls_piece piece = {.ticket = s->ticket, .first = s->n_sent};
  size_t bytes = 0;
  while (piece.first + piece.n < s->n) {
    size_t more = lls_pulled_bytes(pool, &s->list[piece.first + piece.n]);
    if (bytes + more > b->bytes)
      break;
    bytes += more;
    piece.n++;
  }
  if (!lls_bulk_send(b, s->from, &piece, s->list + piece.first))
    return false;
  s->n_sent += piece.n;
  s->empty = false;
  return true;
}

/* Serves each instance's orders in order of arrival: a request with all blocks can
 * continue earlier. */
bool lls_serving_go_on(struct lls_serving **all, struct lls_bulk *b)
{
  bool any = false;
  for (struct lls_serving **at = all; *at != NULL;) {
    struct lls_serving *s = *at;
    while ((s->n_sent < s->n || s->empty) && send_piece(b, s))
      any = true;
    if (s->n_sent == s->n && !s->empty)
      end(at);
    else
      at = &s->next;
  }
  return any;
}

void lls_serving_free(struct lls_serving **all)
{
  while (*all != NULL)
    end(all);
}
