/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives pieces by links, and makes progress with them; see links.h. */
#include "core/cluster/links_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/error.h"

static int64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- pieces ------------------------------------------------------------------------ */

char *lls_links_room(struct lls_links *l, uint32_t to, bool *linked)
{
  struct lls_link_other *o = &l->others[to];
  if (o->out.state == LLS_LINK_UNTRIED)
    lls_link_offer(l, o);
  *linked = o->out.state == LLS_LINK_OPEN;
  if (!*linked || o->out.n_given == o->out.n_done + LLS_LINK_WINDOW)
    return NULL;
  return o->out.rooms[o->out.n_given % LLS_LINK_WINDOW];
}

static void give(struct lls_links *l, struct lls_link_end *end, size_t bytes)
{
  if (end->n_given == end->n_done)
    end->since_ns = now_ns();
  l->ops->give(end->link, end->rooms[end->n_given++ % LLS_LINK_WINDOW], bytes);
}

uint64_t lls_links_give(struct lls_links *l, uint32_t to, size_t bytes)
{
  struct lls_link_end *out = &l->others[to].out;
  give(l, out, bytes);
  return out->n_given - 1;
}

int lls_links_expect(struct lls_links *l, uint32_t from, const struct lls_linked *piece)
{
  struct lls_link_expected **at = &l->others[from].first;
  struct lls_link_expected *e = malloc(sizeof *e);
  if (e == NULL)
    return -ENOMEM;
  while (*at != NULL && (*at)->piece.sequence < piece->sequence)
    at = &(*at)->next;
  *e = (struct lls_link_expected){.next = *at, .piece = *piece};
  *at = e;
  return 0;
}

static struct lls_linked take_first(struct lls_link_other *o)
{
  struct lls_link_expected *e = o->first;
  struct lls_linked piece = e->piece;
  o->first = e->next;
  free(e);
  return piece;
}

/* Gets the next piece: first those for which the link had memory, arrived or lost; then
 * those expected that never got memory. */
static bool next_of(struct lls_link_other *o, struct lls_linked *piece, const char **data)
{
  struct lls_link_end *in = &o->in;
  bool lost = in->state == LLS_LINK_NEVER;
  size_t i = in->n_received % LLS_LINK_WINDOW;
  if (in->n_received < (lost ? in->n_given : in->n_done)) {
    *piece = o->coming[i];
    *data = in->n_received < in->n_done ? in->rooms[i] : NULL;
    return true;
  }
  if (!lost || o->first == NULL)
    return false;
  *piece = take_first(o);
  *data = NULL;
  return true;
}

bool lls_links_receive(struct lls_links *l, uint32_t *from, struct lls_linked *piece,
                       const char **data)
{
  if (l->lent != NULL)
    l->lent->n_received++;
  l->lent = NULL;
  for (uint32_t i = 0; i < l->n; i++) {
    struct lls_link_end *in = &l->others[i].in;
    bool given = in->n_received < in->n_given;
    if (!next_of(&l->others[i], piece, data))
      continue;
    *from = i;
    l->lent = given ? in : NULL;
    return true;
  }
  return false;
}

/* ---- making progress --------------------------------------------------------------- */

/* Gives the link memory for the expected pieces, in the order in which they were sent. */
static void give_rooms(struct lls_links *l, struct lls_link_other *o)
{
  struct lls_link_end *in = &o->in;
  while (o->first != NULL && o->first->piece.sequence == in->n_given &&
         in->n_given < in->n_received + LLS_LINK_WINDOW) {
    struct lls_linked piece = take_first(o);
    o->coming[in->n_given % LLS_LINK_WINDOW] = piece;
    give(l, in, piece.bytes);
  }
}

/* Returns 0, or -EIO if the link is broken. */
static int move(struct lls_links *l, struct lls_link_end *end, struct lls_error *why)
{
  uint64_t n_done = end->n_done;
  int rc = l->ops->go_on(end->link, &n_done, why);
  if (rc == -EAGAIN)
    return 0;
  if (rc < 0)
    return rc;
  if (end->state == LLS_LINK_OPENING) {
    end->state = LLS_LINK_OPEN;
    end->has_news = end->sends;
  }
  if (n_done > end->n_done)
    end->since_ns = now_ns();
  else if (end->n_given > n_done && now_ns() - end->since_ns > l->timeout_ns)
    return lls_fail(why, -EIO, "a piece was on its way for %lld ms",
                    (long long)(l->timeout_ns / 1000000));
  end->n_done = n_done;
  return 0;
}

static bool go_on(struct lls_links *l, struct lls_link_end *end)
{
  struct lls_error why = {0};
  uint64_t n_done = end->n_done;
  if (end->state != LLS_LINK_OPENING && end->state != LLS_LINK_OPEN)
    return false;
  if (move(l, end, &why) < 0)
    lls_link_give_up(l, end, &why);
  return end->n_done != n_done || end->state == LLS_LINK_NEVER;
}

bool lls_links_go_on(struct lls_links *l)
{
  bool any = false;
  for (uint32_t i = 0; i < l->n; i++) {
    struct lls_link_other *o = &l->others[i];
    if (o->in.state == LLS_LINK_OPEN)
      give_rooms(l, o);
    any |= go_on(l, &o->out);
    any |= go_on(l, &o->in);
  }
  return any;
}
