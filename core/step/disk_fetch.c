/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk tier's work for sessions without a request: leases of their blocks on disk,
 * and reads of these blocks into the cache before the session returns.
 *
 * Reads for sessions take what reads for requests leave: none is asked for while a
 * request waits for a block to be asked for, and those under way are few, so that a
 * request which comes then waits for some milliseconds of them. If the session's own
 * request comes, it waits for the blocks that were asked for, and reads the rest itself.
 */
#include <errno.h>

#include "core/base/least.h"
#include "core/engine/engine.h"
#include "core/instance/instance.h"
#include "core/instance/running_policy.h"
#include "core/step/disk_inside.h"
#include "core/step/disk_tier.h"

/* Most bytes under way for sessions: 8 ms of a disk of 2 GB/s. */
#define ASKED_BYTES (UINT64_C(16) << 20)

static uint32_t block_tokens(const struct lls_instance *in)
{
  return lls_engine_pool_shape(in->engine)->block_tokens;
}

/* ---- leases ------------------------------------------------------------------------ */

int lls_disk_tier_retain(struct lls_instance *in, struct lls_live_session *s,
                         int64_t until_ns)
{
  LLS_ON_STEP(in);
  if (in->disk == NULL)
    return -ENOTSUP;
  struct lls_disk_leases *l = &in->disk->leases;
  uint32_t n = lls_disk_leading_blocks(in, s->view.keys, s->view.n_keys);
  if (n == 0 || until_ns <= lls_instance_now(in)) {
    lls_disk_leases_end(l, s->view.id);
    return (int)(n * block_tokens(in));
  }
  int rc = lls_disk_leases_take(l, &s->view, n, until_ns);
  s->kept_on_disk = rc == 0;
  return rc < 0 ? rc : (int)(n * block_tokens(in));
}

void lls_disk_tier_let_go(struct lls_instance *in, uint64_t session)
{
  LLS_ON_STEP(in);
  if (in->disk != NULL)
    lls_disk_leases_end(&in->disk->leases, session);
}

void lls_disk_tier_expire(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  if (in->disk != NULL)
    lls_disk_leases_expire(&in->disk->leases, lls_instance_now(in));
}

/* ---- reads ------------------------------------------------------------------------- */

/* Returns the reads of the session, or with 0 room for more; NULL: there is none. */
static struct lls_disk_fetch *fetch_of(struct lls_disk_tier *d, uint64_t session)
{
  for (uint32_t i = 0; i < LLS_DISK_FETCHES; i++)
    if (d->fetches[i].session == session)
      return &d->fetches[i];
  return NULL;
}

static void stop(struct lls_instance *in, struct lls_disk_fetch *f)
{
  in->disk->coming -= f->wait.coming;
  in->disk->n_fetches--;
  *f = (struct lls_disk_fetch){0};
}

/* Returns true if a request of the session waits for its blocks: it has not arrived. */
static bool is_held(const struct lls_instance *in, uint64_t session)
{
  for (uint32_t i = 0; i < in->reading.n; i++) {
    const struct lls_live_session *s =
        lls_session_part(in, lls_live_of(in->reading.items[i]));
    if (s != NULL && s->view.id == session)
      return true;
  }
  return false;
}

int lls_disk_tier_fetch(struct lls_instance *in, struct lls_live_session *s,
                        uint32_t cached)
{
  struct lls_disk_tier *d = in->disk;
  LLS_ON_STEP(in);
  if (d == NULL || !LLS_HAS(&in->policies, cache, adopt))
    return -ENOTSUP;
  uint32_t n = lls_disk_leading_blocks(in, s->view.keys, s->view.n_keys);
  uint32_t first = cached / block_tokens(in);
  int tokens = (int)(n * block_tokens(in));
  if (n <= first)
    return (int)cached;
  if (fetch_of(d, s->view.id) != NULL || is_held(in, s->view.id))
    return tokens;
  uint32_t coming = (n - first) * block_tokens(in);
  struct lls_disk_fetch *f = fetch_of(d, 0);
  if (f == NULL)
    return -EBUSY;
  if (lls_disk_is_far_ahead(in, coming))
    return -ENOSPC;
  lls_disk_use(in, s->view.keys, n);
  *f = (struct lls_disk_fetch){.session = s->view.id,
                               .wait = {.ticket = ++d->ticket,
                                        .begun = true,
                                        .first_block = first,
                                        .next_block = first,
                                        .landed = first,
                                        .end = n,
                                        .n_blocks = n,
                                        .coming = coming}};
  d->coming += coming;
  d->n_fetches++;
  return tokens;
}

void lls_disk_fetch_check(struct lls_instance *in)
{
  struct lls_disk_tier *d = in->disk;
  for (uint32_t i = 0; i < LLS_DISK_FETCHES && d->n_fetches > 0; i++) {
    struct lls_disk_fetch *f = &d->fetches[i];
    const struct lls_live_session *s =
        f->session != 0 ? lls_session_find(&in->sessions, f->session) : NULL;
    if (f->session != 0 && (s == NULL || s->place == 0))
      stop(in, f);
  }
}

void lls_disk_fetch_take(struct lls_instance *in, const struct lls_block_read *read)
{
  struct lls_disk_tier *d = in->disk;
  struct lls_disk_fetch *f = NULL;
  for (uint32_t i = 0; i < LLS_DISK_FETCHES && f == NULL; i++)
    if (d->fetches[i].session != 0 && d->fetches[i].wait.ticket == read->ticket)
      f = &d->fetches[i];
  if (f == NULL || f->wait.landed >= f->wait.end)
    return;
  struct lls_disk_wait *w = &f->wait;
  if (read->record == NULL) {
    w->end = w->landed;
  } else {
    d->fetched_tokens += lls_disk_land(in, w, read) ? block_tokens(in) : 0;
    w->landed++;
  }
  uint32_t coming = lls_least_u32(block_tokens(in), w->coming);
  w->coming -= coming;
  d->coming -= coming;
  if (w->landed < w->end)
    return;
  lls_session_set_there(lls_session_find(&in->sessions, f->session), LLS_TIER_DEVICE,
                        w->landed * block_tokens(in));
  stop(in, f);
}

/* Asks for blocks of a session until so many are under way for all. Returns false if no
 * more can be asked for. */
static bool ask_for(struct lls_instance *in, struct lls_disk_fetch *f, uint32_t *left)
{
  struct lls_disk_wait *w = &f->wait;
  const struct lls_key *keys = lls_session_find(&in->sessions, f->session)->view.keys;
  while (*left > 0 && w->next_block < w->end) {
    int rc = lls_block_store_get(in->disk->store, &keys[w->next_block], w->ticket);
    if (rc == -EAGAIN)
      return false;
    if (rc < 0) {
      w->end = w->next_block;
    } else {
      w->next_block++;
      (*left)--;
    }
  }
  if (w->landed >= w->end)
    stop(in, f);
  return *left > 0;
}

void lls_disk_fetch_ask(struct lls_instance *in)
{
  struct lls_disk_tier *d = in->disk;
  uint32_t most = (uint32_t)(ASKED_BYTES / d->record_bytes) + 1, under_way = 0;
  if (d->n_fetches == 0)
    return;
  for (uint32_t i = 0; i < LLS_DISK_FETCHES; i++)
    under_way += d->fetches[i].wait.next_block - d->fetches[i].wait.landed;
  uint32_t left = most > under_way ? most - under_way : 0;
  for (uint32_t i = 0; i < LLS_DISK_FETCHES && left > 0; i++)
    if (d->fetches[i].session != 0 && !ask_for(in, &d->fetches[i], &left))
      return;
}

bool lls_disk_fetch_yields(struct lls_instance *in, const struct lls_live *live)
{
  const struct lls_live_session *s = lls_session_part(in, live);
  struct lls_disk_fetch *f = s != NULL ? fetch_of(in->disk, s->view.id) : NULL;
  if (f == NULL)
    return false;
  f->wait.end = f->wait.next_block;
  if (f->wait.landed < f->wait.end)
    return true;
  stop(in, f);
  return false;
}

void lls_disk_fetch_stop(struct lls_instance *in)
{
  for (uint32_t i = 0; i < LLS_DISK_FETCHES; i++)
    if (in->disk->fetches[i].session != 0)
      stop(in, &in->disk->fetches[i]);
}
