/* SPDX-License-Identifier: Apache-2.0 */
/* Orders blocks from other instances, and serves the orders of others; see fetch.h. */
#include "core/cluster/fetch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/error.h"
#include "core/channel/channel.h"
#include "core/cluster/apart.h"
#include "core/cluster/bulk.h"
#include "core/cluster/links.h"
#include "core/cluster/serving.h"
#include "core/config/instance_list.h"
#include "core/engine/engine.h"
#include "core/instance/inbox.h"
#include "core/ranks/ranks.h"

/* OVERDUE: it has failed, and its source is to drop it. */
enum state { FREE, HELD, WANTED, ASKED, DROPPED, FAILED, OVERDUE };

/* For [step] and the channel's thread, under the lock. */
struct fetch {
  enum state state;
  uint64_t ticket, request, bytes;
  uint32_t source, n, n_there;
  uint32_t n_parts;      /* parts that other ranks still have to fetch */
  struct lls_pull *list; /* (n) */
};

struct lls_fetches {
  struct lls_engine *engine;
  struct lls_channel *channel;
  struct lls_bulk bulk;
  uint32_t n_others;           /* ranks that repeat the calls of rank 0's step thread */
  struct lls_serving *serving; /* orders of other instances to this one */
  struct lls_apart apart;      /* the channel thread's */
  pthread_mutex_t lock;        /* guards all members below */
  bool lost[LLS_MAX_INSTANCES];
  uint64_t next_ticket;
  struct fetch list[2 * LLS_MAX_FETCHES]; /* including dropped ones, until their last
                                           * piece has arrived */
};

#define N_FETCHES (2 * LLS_MAX_FETCHES)

/* ---- creation and end ------------------------------------------------------------- */

int lls_fetches_create(const struct lls_fetches_options *o, struct lls_fetches **out,
                       struct lls_error *err)
{
  if (!lls_engine_packs(o->engine))
    return lls_fail(err, -ENOTSUP,
                    "blocks of this device cannot be sent to other processes");
  struct lls_fetches *f = calloc(1, sizeof *f);
  if (f == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  f->engine = o->engine;
  f->channel = o->channel;
  f->next_ticket = 1;
  const struct lls_ranks *ranks = lls_engine_ranks(o->engine);
  f->n_others = ranks != NULL && ranks->rank == 0 ? ranks->size - 1 : 0;
  pthread_mutex_init(&f->lock, NULL);
  int rc = lls_bulk_open(&f->bulk, o, err);
  if (rc < 0) {
    lls_fetches_destroy(f);
    return rc;
  }
  *out = f;
  return 0;
}

void lls_fetches_destroy(struct lls_fetches *f)
{
  if (f == NULL)
    return;
  lls_bulk_close(&f->bulk);
  lls_serving_free(&f->serving);
  for (uint32_t i = 0; i < N_FETCHES; i++)
    free(f->list[i].list);
  pthread_mutex_destroy(&f->lock);
  free(f);
}

bool lls_fetches_are_on_gpu(const struct lls_fetches *f)
{
  return f->bulk.memory == LLS_MEMORY_PIECES;
}

const char *lls_fetches_why_no_links(const struct lls_fetches *f)
{
  return f->bulk.no_links.text;
}

void lls_fetches_begin_thread(struct lls_fetches *f)
{
  lls_bulk_begin(&f->bulk);
}

/* ---- the step thread's part ------------------------------------------------------- */

/* Finds the fetch with this ticket; ticket 0: a free entry. */
static struct fetch *find(struct lls_fetches *f, uint64_t ticket)
{
  for (uint32_t i = 0; i < N_FETCHES; i++)
    if (ticket == 0 ? f->list[i].state == FREE
                    : f->list[i].state != FREE && f->list[i].ticket == ticket)
      return &f->list[i];
  return NULL;
}

static void end(struct fetch *fetch)
{
  free(fetch->list);
  *fetch = (struct fetch){.state = FREE};
}

/* Adds a fetch; its ticket is the next one, unless it is given. Returns 0, -ENOMEM, or
 * -EBUSY while dropped fetches, which the channel's thread has not seen, fill the
 * list. */
static int add(struct lls_fetches *f, struct fetch *wanted)
{
  struct lls_pull *copy = malloc((wanted->n + (size_t)1) * sizeof *copy);
  if (copy == NULL)
    return -ENOMEM;
  memcpy(copy, wanted->list, wanted->n * sizeof *copy);
  pthread_mutex_lock(&f->lock);
  struct fetch *fetch = find(f, 0);
  if (fetch != NULL) {
    if (wanted->ticket == 0)
      wanted->ticket = f->next_ticket++;
    *fetch = *wanted;
    fetch->list = copy;
  }
  pthread_mutex_unlock(&f->lock);
  if (fetch == NULL)
    free(copy);
  return fetch != NULL ? 0 : -EBUSY;
}

/* A step that was planned before its source was lost may release a fetch afterwards:
 * that fetch fails. */
static bool release(struct lls_fetches *f)
{
  bool any = false;
  pthread_mutex_lock(&f->lock);
  for (uint32_t i = 0; i < N_FETCHES; i++)
    if (f->list[i].state == HELD) {
      f->list[i].state = f->lost[f->list[i].source] ? FAILED : WANTED;
      any = true;
    }
  pthread_mutex_unlock(&f->lock);
  return any;
}

static void drop(struct lls_fetches *f, uint64_t ticket)
{
  pthread_mutex_lock(&f->lock);
  struct fetch *fetch = find(f, ticket);
  if (fetch != NULL && (fetch->state == ASKED || fetch->state == OVERDUE))
    fetch->state = DROPPED;
  else if (fetch != NULL)
    end(fetch);
  pthread_mutex_unlock(&f->lock);
}

/* ---- repeating calls on other ranks ------------------------------------------------ */

enum { BEGIN, RELEASE, DROP };

struct note {
  uint32_t kind, source, n, reserved;
  uint64_t ticket, request;
}; /* then the list (n) */

/* Sends a note to the other ranks. If that fails the group has failed, and the next
 * step finds it. */
static void tell(struct lls_fetches *f, const struct note *note,
                 const struct lls_pull *list)
{
  struct lls_pack p = {0};
  if (f->n_others == 0)
    return;
  LLS_PACK(&p, *note);
  lls_pack_put(&p, list, note->n * sizeof *list);
  if (p.failed)
    lls_ranks_fail(lls_engine_ranks(f->engine), "out of memory");
  else
    lls_engine_tell(f->engine, p.data, p.n);
  free(p.data);
}

/* Adds a fetch, and waits if it must until the channel's thread here has removed a
 * dropped one, which depends on no other process. */
static int begin_here(struct lls_fetches *f, struct fetch *wanted)
{
  int rc;
  while ((rc = add(f, wanted)) == -EBUSY)
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  return rc;
}

int lls_fetches_heed(struct lls_fetches *f, const void *data, size_t bytes,
                     struct lls_error *err)
{
  struct lls_unpack u = {.data = (char *)(uintptr_t)data, .n = bytes};
  struct note note;
  memset(&note, 0, sizeof note);
  LLS_UNPACK(&u, note);
  struct lls_pull *list = (void *)(uintptr_t)lls_unpack_bytes(&u, note.n * sizeof *list);
  if (u.failed)
    return lls_fail(err, -EPROTO, "a note of rank 0 came in pieces");
  struct fetch wanted = {.state = HELD,
                         .ticket = note.ticket,
                         .request = note.request,
                         .source = note.source,
                         .n = note.n,
                         .list = list};
  int rc = 0;
  if (note.kind == BEGIN)
    rc = begin_here(f, &wanted);
  else if (note.kind == RELEASE)
    release(f);
  else
    drop(f, note.ticket);
  return rc < 0 ? lls_fail(err, rc, "out of memory for blocks of another instance") : 0;
}

/* ---- the step thread of rank 0 ----------------------------------------------------- */

int lls_fetches_begin(struct lls_fetches *f, const struct lls_request *r, uint32_t source,
                      const struct lls_pull *list, uint32_t n, uint64_t *ticket)
{
  struct fetch wanted = {.state = HELD,
                         .request = r->id,
                         .source = source,
                         .n = n,
                         .n_parts = f->n_others,
                         .list = (struct lls_pull *)(uintptr_t)list};
  if (add(f, &wanted) < 0)
    return -ENOMEM;
  *ticket = wanted.ticket;
  tell(f,
       &(struct note){
           .kind = BEGIN, .source = source, .n = n, .ticket = *ticket, .request = r->id},
       list);
  return 0;
}

void lls_fetches_release(struct lls_fetches *f)
{
  if (release(f))
    tell(f, &(struct note){.kind = RELEASE}, NULL);
}

void lls_fetches_drop(struct lls_fetches *f, uint64_t ticket)
{
  drop(f, ticket);
  tell(f, &(struct note){.kind = DROP, .ticket = ticket}, NULL);
}

/* ---- the channel's thread, at the target ------------------------------------------- */

/* Gets an order of an empty piece, which shows that pieces of an instance arrive. */
static bool next_try(struct lls_fetches *f, struct lls_fetch_order *out)
{
  const uint32_t none = 0;
  for (uint32_t i = 0; i < f->channel->n; i++)
    if (lls_apart_try(&f->apart, i)) {
      *out = (struct lls_fetch_order){.source = i};
      LLS_PACK(&out->pack, none);
      return !out->pack.failed;
    }
  return false;
}

/* Lets the fetches fail that began after their source was apart. */
static void fail_apart(struct lls_fetches *f, struct fetch *fetch)
{
  if (fetch->state == WANTED && lls_is_apart(&f->apart, fetch->source))
    fetch->state = FAILED;
}

bool lls_fetches_next_order(struct lls_fetches *f, struct lls_fetch_order *out)
{
  bool found = next_try(f, out);
  pthread_mutex_lock(&f->lock);
  for (uint32_t i = 0; i < N_FETCHES && !found; i++) {
    struct fetch *fetch = &f->list[i];
    fail_apart(f, fetch);
    found = fetch->state == WANTED || fetch->state == DROPPED;
    if (!found)
      continue;
    *out = (struct lls_fetch_order){.source = fetch->source, .ticket = fetch->ticket};
    if (fetch->state == DROPPED) {
      end(fetch);
      continue;
    }
    LLS_PACK(&out->pack, fetch->n);
    lls_pack_put(&out->pack, fetch->list, fetch->n * sizeof *fetch->list);
    fetch->state = out->pack.failed ? FAILED : ASKED;
  }
  pthread_mutex_unlock(&f->lock);
  return found;
}

/* Writes a piece that has arrived. The lock is held meanwhile, so that nothing is
 * written after a drop. */
static void take_piece(struct lls_fetches *f, const struct lls_arrived *a)
{
  const struct lls_piece *piece = &a->piece;
  pthread_mutex_lock(&f->lock);
  struct fetch *fetch = find(f, piece->ticket);
  bool wanted = fetch != NULL && fetch->state == ASKED && fetch->source == a->from &&
                piece->first <= fetch->n && piece->n <= fetch->n - piece->first;
  if (wanted) {
    int rc = lls_bulk_unpack(&f->bulk, a, fetch->list + piece->first);
    fetch->n_there += piece->n;
    fetch->bytes += a->bytes;
    if (rc < 0)
      fetch->state = FAILED;
  }
  pthread_mutex_unlock(&f->lock);
}

bool lls_fetches_next_done(struct lls_fetches *f, struct lls_fetched *out)
{
  bool found = false;
  pthread_mutex_lock(&f->lock);
  for (uint32_t i = 0; i < N_FETCHES && !found; i++) {
    struct fetch *fetch = &f->list[i];
    bool good =
        fetch->state == ASKED && fetch->n_there == fetch->n && fetch->n_parts == 0;
    bool overdue = fetch->state == OVERDUE;
    found = good || overdue || fetch->state == FAILED;
    if (!found)
      continue;
    *out = (struct lls_fetched){.request = fetch->request,
                                .ticket = fetch->ticket,
                                .bytes = fetch->bytes,
                                .good = good};
    if (overdue)
      fetch->state = DROPPED;
    else
      end(fetch);
  }
  pthread_mutex_unlock(&f->lock);
  return found;
}

/* Returns true if pieces of that instance are due. */
static bool is_due(const struct lls_fetches *f, uint32_t source)
{
  for (uint32_t i = 0; i < N_FETCHES; i++)
    if (f->list[i].state == ASKED && f->list[i].source == source &&
        f->list[i].n_there < f->list[i].n)
      return true;
  return false;
}

/* Gives up the fetches from instances that are apart. Processes of one MPI job have no
 * connections that are cut without an end of the job. */
static void look_for_apart(struct lls_fetches *f)
{
  struct timespec t;
  if (!f->channel->elastic)
    return;
  clock_gettime(CLOCK_MONOTONIC, &t);
  int64_t passed_ns =
      lls_apart_look(&f->apart, t.tv_sec * INT64_C(1000000000) + t.tv_nsec);
  pthread_mutex_lock(&f->lock);
  for (uint32_t source = 0; source < f->channel->n; source++) {
    if (!lls_apart_wait(&f->apart, source, is_due(f, source), passed_ns))
      continue;
    for (uint32_t i = 0; i < N_FETCHES; i++)
      if (f->list[i].state == ASKED && f->list[i].source == source)
        f->list[i].state = OVERDUE;
  }
  pthread_mutex_unlock(&f->lock);
}

/* ---- the channel's thread, at the source ------------------------------------------- */

bool lls_fetches_serve(struct lls_fetches *f, uint32_t from, uint64_t ticket,
                       struct lls_unpack *u)
{
  return lls_serving_add(&f->serving, from, ticket, u);
}

void lls_fetches_unserve(struct lls_fetches *f, uint32_t from, uint64_t ticket)
{
  lls_serving_end(&f->serving, from, ticket);
}

bool lls_fetches_move(struct lls_fetches *f)
{
  struct lls_arrived arrived;
  bool any = lls_bulk_go_on(&f->bulk);
  for (int i = 0; i < 16 && lls_bulk_receive(&f->bulk, &arrived); i++) {
    lls_apart_arrived(&f->apart, arrived.from);
    take_piece(f, &arrived);
    any = true;
  }
  look_for_apart(f);
  return lls_serving_go_on(&f->serving, &f->bulk) || any;
}

bool lls_fetches_news(struct lls_fetches *f, uint32_t *from, uint32_t *to,
                      struct lls_error *text)
{
  *from = *to = f->channel->self;
  if (f->bulk.links != NULL && lls_links_news(f->bulk.links, to, text))
    return true;
  if (!lls_apart_news(&f->apart, from))
    return false;
  lls_fail(text, 0, "%s",
           lls_is_apart(&f->apart, *from)
               ? "blocks do not arrive; prompts that are handed over are computed again"
               : "blocks arrive again");
  return true;
}

void lls_fetches_add_part(struct lls_fetches *f, uint64_t ticket, uint64_t bytes)
{
  pthread_mutex_lock(&f->lock);
  struct fetch *fetch = find(f, ticket);
  if (fetch != NULL && fetch->n_parts > 0) {
    fetch->n_parts--;
    fetch->bytes += bytes;
  }
  pthread_mutex_unlock(&f->lock);
}

void lls_fetches_fail(struct lls_fetches *f, uint64_t ticket)
{
  pthread_mutex_lock(&f->lock);
  struct fetch *fetch = find(f, ticket);
  if (fetch != NULL && fetch->state != DROPPED)
    fetch->state = FAILED;
  pthread_mutex_unlock(&f->lock);
}

static void fail_all(struct lls_fetches *f, uint32_t index, bool lost)
{
  lls_bulk_forget(&f->bulk, index);
  lls_serving_lose(&f->serving, index);
  pthread_mutex_lock(&f->lock);
  f->lost[index] |= lost;
  for (uint32_t i = 0; i < N_FETCHES; i++) {
    struct fetch *fetch = &f->list[i];
    if (fetch->source != index || fetch->state == FREE || fetch->state == HELD)
      continue;
    if (fetch->state == DROPPED)
      end(fetch);
    else
      fetch->state = FAILED;
  }
  pthread_mutex_unlock(&f->lock);
}

void lls_fetches_lose(struct lls_fetches *f, uint32_t index)
{
  fail_all(f, index, true);
  lls_apart_forget(&f->apart, index);
}

void lls_fetches_cut(struct lls_fetches *f, uint32_t index)
{
  fail_all(f, index, false);
}

void lls_fetches_find(struct lls_fetches *f, uint32_t index)
{
  pthread_mutex_lock(&f->lock);
  f->lost[index] = false;
  pthread_mutex_unlock(&f->lock);
}
