/* SPDX-License-Identifier: Apache-2.0 */
/* See links.h. */
#include "core/loop/links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/device/device.h"

enum state { UNTRIED, OFFERED, OPENING, OPEN, NEVER };

/* A link to another process, or from it. */
struct end {
  enum state state;
  bool sends, has_news;
  enum lls_link_word owed; /* to the other process */
  struct lls_error why;    /* NEVER */
  struct lls_device_link *link;
  char *rooms[LLS_LINK_WINDOW];
  uint64_t n_given, n_done;
  uint64_t n_received; /* that were handed out: their rooms are free */
  int64_t since_ns;    /* nothing was done; of what is under way */
};

struct expected {
  struct expected *next;
  struct lls_linked piece;
};

struct other {
  struct end out, in;
  struct lls_link_name name;                 /* of the link to it */
  struct expected *first;                    /* of `in`, by their sequence */
  struct lls_linked coming[LLS_LINK_WINDOW]; /* that `in` was given room for */
};

struct lls_links {
  struct lls_device *device;
  const struct lls_link_ops *ops;
  uint32_t self, n;
  int64_t timeout_ns;
  struct other *others; /* (n) */
  struct end *lent;     /* whose room was handed out by receive */
};

static int64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- life -------------------------------------------------------------------------- */

static int take_rooms(struct lls_links *l, struct end *end, size_t bytes)
{
  for (size_t i = 0; i < LLS_LINK_WINDOW; i++) {
    void *room;
    int rc = l->device->ops->alloc(l->device, LLS_MEMORY_PIECES, bytes, &room);
    if (rc < 0)
      return rc;
    end->rooms[i] = room;
  }
  return 0;
}

int lls_links_create(const struct lls_links_options *o, struct lls_links **out,
                     struct lls_error *err)
{
  const struct lls_link_ops *ops = o->device->ops->links;
  if (ops == NULL)
    return lls_fail(err, -ENOTSUP, "this device has no NCCL");
  int rc = ops->prepare(o->device, err);
  if (rc < 0)
    return rc;
  struct lls_links *l = calloc(1, sizeof *l);
  struct other *others = calloc(o->n, sizeof *others);
  if (l == NULL || others == NULL) {
    free(l);
    free(others);
    return lls_fail(err, -ENOMEM, "out of memory");
  }
  *l = (struct lls_links){.device = o->device,
                          .ops = ops,
                          .self = o->self,
                          .n = o->n,
                          .timeout_ns = o->timeout_ns,
                          .others = others};
  for (uint32_t i = 0; i < o->n && rc == 0; i++) {
    others[i].out.sends = true;
    if (i != o->self)
      rc = take_rooms(l, &others[i].out, o->bytes);
    if (i != o->self && rc == 0)
      rc = take_rooms(l, &others[i].in, o->bytes);
  }
  if (rc < 0) {
    lls_links_destroy(l);
    return lls_fail(err, rc, "no memory on the device for pieces to %u others", o->n - 1);
  }
  *out = l;
  return 0;
}

static void stop(struct lls_links *l, struct end *end)
{
  if (end->link != NULL)
    l->ops->close(end->link);
  end->link = NULL;
  end->state = NEVER;
  end->owed = LLS_LINK_SILENT;
}

static void drop_expected(struct other *o)
{
  while (o->first != NULL) {
    struct expected *next = o->first->next;
    free(o->first);
    o->first = next;
  }
}

static void release(struct lls_links *l, struct end *end)
{
  stop(l, end);
  for (size_t i = 0; i < LLS_LINK_WINDOW; i++)
    if (end->rooms[i] != NULL)
      l->device->ops->release(l->device, LLS_MEMORY_PIECES, end->rooms[i]);
}

void lls_links_destroy(struct lls_links *l)
{
  if (l == NULL)
    return;
  for (uint32_t i = 0; i < l->n; i++) {
    release(l, &l->others[i].out);
    release(l, &l->others[i].in);
    drop_expected(&l->others[i]);
  }
  free(l->others);
  free(l);
}

void lls_links_forget(struct lls_links *l, uint32_t index)
{
  struct other *o = &l->others[index];
  stop(l, &o->out);
  stop(l, &o->in);
  o->in.n_received = o->in.n_given;
  drop_expected(o);
}

/* ---- opening ----------------------------------------------------------------------- */

/* Found here, and said to the other end. */
static void give_up(struct lls_links *l, struct end *end, const struct lls_error *why)
{
  stop(l, end);
  end->why = *why;
  end->has_news = end->sends;
  end->owed = end->sends ? LLS_LINK_WITHDRAWN : LLS_LINK_REFUSED;
}

static void open_end(struct lls_links *l, struct end *end,
                     const struct lls_link_name *name)
{
  struct lls_error why = {0};
  if (l->ops->open(l->device, name, end->sends, &end->link, &why) < 0) {
    give_up(l, end, &why);
    return;
  }
  end->state = OPENING;
  end->owed = end->sends ? LLS_LINK_SILENT : LLS_LINK_TAKEN;
}

static void offer(struct lls_links *l, struct other *o)
{
  struct lls_error why = {0};
  o->out.state = OFFERED;
  o->out.owed = LLS_LINK_OFFER;
  if (l->ops->make_name(l->device, &o->name, &why) == 0)
    return;
  give_up(l, &o->out, &why);
  o->out.owed = LLS_LINK_SILENT; /* nobody knows of it */
}

bool lls_links_has_word(const struct lls_links *l, uint32_t to)
{
  const struct other *o = &l->others[to];
  return o->out.owed != LLS_LINK_SILENT || o->in.owed != LLS_LINK_SILENT;
}

void lls_links_take_word(struct lls_links *l, uint32_t to, struct lls_link_message *m)
{
  struct other *o = &l->others[to];
  struct end *end = o->out.owed != LLS_LINK_SILENT ? &o->out : &o->in;
  *m = (struct lls_link_message){.word = end->owed, .name = o->name};
  memcpy(m->why, end->why.text, sizeof m->why - 1);
  end->owed = LLS_LINK_SILENT;
}

void lls_links_hear(struct lls_links *l, uint32_t from, const struct lls_link_message *m)
{
  struct other *o = &l->others[from];
  struct lls_error why = {0};
  switch (m->word) {
  case LLS_LINK_OFFER:
    if (o->in.state == UNTRIED)
      open_end(l, &o->in, &m->name);
    break;
  case LLS_LINK_TAKEN:
    if (o->out.state == OFFERED)
      open_end(l, &o->out, &o->name);
    break;
  case LLS_LINK_REFUSED:
    lls_fail(&why, 0, "%.*s, says the other process", (int)sizeof m->why, m->why);
    if (o->out.state != NEVER)
      give_up(l, &o->out, &why);
    o->out.owed = LLS_LINK_SILENT;
    break;
  case LLS_LINK_WITHDRAWN:
    stop(l, &o->in);
    break;
  default:
    break;
  }
}

bool lls_links_news(struct lls_links *l, uint32_t *to, struct lls_error *text)
{
  for (uint32_t i = 0; i < l->n; i++) {
    struct end *out = &l->others[i].out;
    if (!out->has_news)
      continue;
    out->has_news = false;
    *to = i;
    if (out->state == NEVER)
      lls_fail(text, 0, "blocks go there without %s: %s", l->ops->text, out->why.text);
    else
      lls_fail(text, 0, "blocks go there from GPU to GPU, by %s", l->ops->text);
    return true;
  }
  return false;
}

/* ---- pieces ------------------------------------------------------------------------ */

char *lls_links_room(struct lls_links *l, uint32_t to, bool *linked)
{
  struct other *o = &l->others[to];
  if (o->out.state == UNTRIED)
    offer(l, o);
  *linked = o->out.state == OPEN;
  if (!*linked || o->out.n_given == o->out.n_done + LLS_LINK_WINDOW)
    return NULL;
  return o->out.rooms[o->out.n_given % LLS_LINK_WINDOW];
}

static void give(struct lls_links *l, struct end *end, size_t bytes)
{
  if (end->n_given == end->n_done)
    end->since_ns = now_ns();
  l->ops->give(end->link, end->rooms[end->n_given++ % LLS_LINK_WINDOW], bytes);
}

uint64_t lls_links_give(struct lls_links *l, uint32_t to, size_t bytes)
{
  struct end *out = &l->others[to].out;
  give(l, out, bytes);
  return out->n_given - 1;
}

int lls_links_expect(struct lls_links *l, uint32_t from, const struct lls_linked *piece)
{
  struct expected **at = &l->others[from].first;
  struct expected *e = malloc(sizeof *e);
  if (e == NULL)
    return -ENOMEM;
  while (*at != NULL && (*at)->piece.sequence < piece->sequence)
    at = &(*at)->next;
  *e = (struct expected){.next = *at, .piece = *piece};
  *at = e;
  return 0;
}

static struct lls_linked take_first(struct other *o)
{
  struct expected *e = o->first;
  struct lls_linked piece = e->piece;
  o->first = e->next;
  free(e);
  return piece;
}

/* First those that it was given, done or lost; then those that it never will be. */
static bool next_of(struct other *o, struct lls_linked *piece, const char **data)
{
  struct end *in = &o->in;
  bool lost = in->state == NEVER;
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
    struct end *in = &l->others[i].in;
    bool given = in->n_received < in->n_given;
    if (!next_of(&l->others[i], piece, data))
      continue;
    *from = i;
    l->lent = given ? in : NULL;
    return true;
  }
  return false;
}

/* ---- going on ---------------------------------------------------------------------- */

/* Room for what is expected, in the order in which it was sent. */
static void give_rooms(struct lls_links *l, struct other *o)
{
  struct end *in = &o->in;
  while (o->first != NULL && o->first->piece.sequence == in->n_given &&
         in->n_given < in->n_received + LLS_LINK_WINDOW) {
    struct lls_linked piece = take_first(o);
    o->coming[in->n_given % LLS_LINK_WINDOW] = piece;
    give(l, in, piece.bytes);
  }
}

/* -EIO: it is broken. */
static int move(struct lls_links *l, struct end *end, struct lls_error *why)
{
  uint64_t n_done = end->n_done;
  int rc = l->ops->go_on(end->link, &n_done, why);
  if (rc == -EAGAIN)
    return 0;
  if (rc < 0)
    return rc;
  if (end->state == OPENING) {
    end->state = OPEN;
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

static bool go_on(struct lls_links *l, struct end *end)
{
  struct lls_error why = {0};
  uint64_t n_done = end->n_done;
  if (end->state != OPENING && end->state != OPEN)
    return false;
  if (move(l, end, &why) < 0)
    give_up(l, end, &why);
  return end->n_done != n_done || end->state == NEVER;
}

bool lls_links_go_on(struct lls_links *l)
{
  bool any = false;
  for (uint32_t i = 0; i < l->n; i++) {
    struct other *o = &l->others[i];
    if (o->in.state == OPEN)
      give_rooms(l, o);
    any |= go_on(l, &o->out);
    any |= go_on(l, &o->in);
  }
  return any;
}
