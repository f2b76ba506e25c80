/* SPDX-License-Identifier: Apache-2.0 */
/* See disk_tier.h. */
#include "core/step/disk_tier.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/least.h"
#include "core/disk/block_int8.h"
#include "core/engine/batch.h"
#include "core/engine/engine.h"
#include "core/instance/block_events.h"
#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/instance/transaction.h"
#include "core/obs/log.h"
#include "core/policy/adoption.h"
#include "core/record/persistent_shape.h"
#include "core/step/disk_inside.h"

#define MIB (UINT64_C(1) << 20)

/* A prefill of 8,192 tokens is written as a whole, with 32 KiB a token. Memory that is
 * never filled is never taken. */
#define WRITING_BYTES (256 * MIB)
#define READING_BYTES (64 * MIB)
/* A step copies what it has computed and so much more, which took some 5 ms: blocks that
 * requests found in the cache and the disk has lost. */
#define MORE_BYTES (16 * MIB)

/* Adopting blocks may cost the manager older ones of the same prompt, which are then read
 * as well. */
#define ROUNDS 3

/* A request waits no longer for the disk, in whatever state that is, its wait for the
 * requests before it included. */
static const int64_t longest_ns = 10 * LLS_NS_PER_S;
#define TTFT_PARTS 4 /* a request with a deadline waits no longer than a part of it */

/* ---- life -------------------------------------------------------------------------- */

static const char *why_none(const struct lls_instance *in, bool simulated)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  if (in->policies.cache.module->cache.adopt == NULL)
    return "this cache manager takes none back (paged and tiered do)";
  if (!simulated && !lls_engine_reads_blocks(in->engine))
    return "they cannot be read from this device, or are divided among ranks";
  for (uint32_t i = 0; i < lls_pool_groups(pool); i++)
    if (lls_group_is_state(pool, i))
      return "the model keeps states, of which not each block has one";
  if (in->model_folder == NULL)
    return "the model has no folder";
  return pool->int8 == LLS_INT8_ALL ? "[cache] int8 = all" : NULL;
}

/* Sets where a record has the blocks. With int8 the shape, by which a file is known, gets
 * their form and bytes there. Returns 0 or -ENOMEM. */
static int lay_out(struct lls_disk_tier *d, enum lls_dtype element, bool int8,
                   struct lls_persistent_shape *s)
{
  size_t widest = 0;
  d->element = element;
  d->all_groups = (1u << d->n_groups) - 1;
  for (uint32_t i = 0; i < d->n_groups; i++) {
    d->form[i] = s->block_form[i];
    d->numbers[i] = s->block_bytes[i] / lls_dtype_bytes(element);
    widest = widest > s->block_bytes[i] ? widest : s->block_bytes[i];
    if (int8) {
      s->block_form[i] = LLS_FORM_INT8;
      s->block_bytes[i] = lls_int8_bytes(d->numbers[i]);
    }
    d->bytes[i] = s->block_bytes[i];
    d->offset[i] = d->record_bytes;
    d->record_bytes += d->bytes[i];
  }
  d->wide = int8 ? malloc(widest) : NULL;
  return int8 && d->wide == NULL ? -ENOMEM : 0;
}

static int open_store(struct lls_instance *in, struct lls_disk_tier *d, const char *path,
                      const struct lls_loop_prompts *o,
                      const struct lls_disk_rates *simulated, struct lls_error *err)
{
  char identity[LLS_BLOCK_IDENTITY] = {0};
  struct lls_block_store_status status;
  bool emptied;
  struct lls_persistent_shape shape = lls_persistent_shape_of(in);
  _Static_assert(sizeof shape <= sizeof identity, "a shape is an identity");
  int rc = lay_out(d, lls_engine_pool_shape(in->engine)->element, o->int8, &shape);
  if (rc < 0)
    return rc;
  memcpy(identity, &shape, sizeof shape);
  const struct lls_block_store_options options = {.path = path,
                                                  .identity = identity,
                                                  .record_bytes = d->record_bytes,
                                                  .bytes = o->most_bytes,
                                                  .writing_bytes = WRITING_BYTES,
                                                  .reading_bytes = READING_BYTES,
                                                  .simulated = simulated,
                                                  .clock = in->clock,
                                                  .clock_context = in->clock_context};
  rc = lls_block_store_open(&options, &d->store, &emptied, err);
  if (rc < 0)
    return rc;
  lls_block_store_status(d->store, &status);
  rc = lls_disk_leases_init(&d->leases, d->store,
                            (uint32_t)(in->leases.disk_share * (status.slots - 1)));
  if (rc < 0)
    return lls_fail(err, rc, "no memory for leases of blocks on disk");
  if (d->simulated)
    return 0;
  lls_log(in->log, LLS_LOG_INFO, "cache", "%s: %u of %u blocks of %u tokens on disk%s%s",
          path, status.used, status.slots, shape.block_tokens, o->int8 ? ", as int8" : "",
          emptied ? "; it was new, or of another model, device, setting or version" : "");
  return 0;
}

static void destroy(struct lls_disk_tier *d)
{
  if (d == NULL)
    return;
  lls_block_store_close(d->store);
  lls_disk_leases_free(&d->leases);
  free(d->wide);
  free(d);
}

void lls_disk_tier_open(struct lls_instance *in, const struct lls_loop_prompts *o,
                        const struct lls_disk_rates *simulated, bool trial)
{
  char path[PATH_MAX] = "a simulated disk";
  struct lls_error err = {0};
  LLS_ON_STEP(in);
  if (trial || o->most_bytes == 0 || (o->folder == NULL && simulated == NULL) ||
      in->remote)
    return;
  const char *why = why_none(in, simulated != NULL);
  struct lls_disk_tier *d = why == NULL ? calloc(1, sizeof *d) : NULL;
  if (why == NULL && d == NULL)
    why = "out of memory";
  if (why == NULL) {
    d->n_groups = in->caps.n_groups;
    d->simulated = simulated != NULL;
    if (!d->simulated)
      snprintf(path, sizeof path, "%s/blocks-%u", o->folder, in->info.index);
    int rc = open_store(in, d, path, o, simulated, &err);
    why = rc < 0 ? lls_error_text(&err, rc) : NULL;
  }
  if (why != NULL) {
    lls_log(in->log, LLS_LOG_WARNING, "cache",
            "[cache] disk_space: no blocks are on disk: %s", why);
    destroy(d);
    return;
  }
  in->disk = d;
}

void lls_disk_tier_close(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  destroy(in->disk);
  in->disk = NULL;
}

bool lls_disk_tier_is_reading(const struct lls_instance *in)
{
  return in->reading.n > 0 || (in->disk != NULL && in->disk->n_fetches > 0);
}

/* ---- writing ----------------------------------------------------------------------- */

/* Returns the unit of the i-th block of a list, or LLS_NO_BLOCK: the list lacks it, or it
 * is not full, or not in the form that steps write. */
static uint32_t unit_of(const struct lls_group_list *list, uint32_t i, uint32_t tokens)
{
  if (list->n_entries == 0 || list->entries[0].first_token > i * tokens)
    return LLS_NO_BLOCK;
  uint32_t at = i - list->entries[0].first_token / tokens;
  if (at >= list->n_entries)
    return LLS_NO_BLOCK;
  const struct lls_block_entry *e = &list->entries[at];
  bool good = e->first_token == i * tokens && e->count == tokens &&
              e->direction == list->entries[0].direction &&
              (e->form == LLS_FORM_NONE || e->form == LLS_FORM_KV);
  return good ? e->block : LLS_NO_BLOCK;
}

static bool reads_all(const struct lls_instance *in, uint32_t group)
{
  return in->caps.groups[group]->kind == LLS_GROUP_FULL;
}

/* Copies a block of all groups that have it. Returns their bits; 0 if one is missing that
 * every later token reads. */
static uint32_t copy_block(struct lls_instance *in, const struct lls_block_table *t,
                           uint32_t i, char *record)
{
  const struct lls_disk_tier *d = in->disk;
  uint32_t tokens = lls_engine_pool_shape(in->engine)->block_tokens, groups = 0;
  for (uint32_t group = 0; group < d->n_groups; group++) {
    uint32_t unit = unit_of(&t->lists[group], i, tokens);
    bool good = unit != LLS_NO_BLOCK &&
                (d->simulated || lls_disk_read_unit(in, group, unit, record) == 0);
    if (!good && reads_all(in, group))
      return 0;
    if (!good && !d->simulated)
      memset(record + d->offset[group], 0, d->bytes[group]);
    groups |= good ? 1u << group : 0;
  }
  return groups;
}

/* Returns false if no more can be written now; left: blocks that the step may copy. */
static bool keep_block(struct lls_instance *in, const struct lls_live *live,
                       const struct lls_block_table *t, uint32_t i, uint32_t *left)
{
  struct lls_block_store *store = in->disk->store;
  const struct lls_key *key = &live->view.keys[i];
  if (lls_block_store_peek(store, key) != 0) /* used when its request arrived */
    return true;
  char *record = *left > 0 ? lls_block_store_room(store) : NULL;
  if (record == NULL)
    return false;
  (*left)--;
  uint32_t groups = copy_block(in, t, i, record);
  if (groups == 0)
    lls_block_store_unused(store, record);
  else
    lls_block_store_put(store, record, key, groups);
  return true;
}

/* When the prompt has been computed its first block becomes the newest: it was written
 * first, and without it the others are of no use. */
static void use_prompt(struct lls_instance *in, const struct lls_live *live)
{
  uint32_t prompt = live->view.prompt_tokens, end = live->context + live->run_tokens;
  if (live->context >= prompt || end < prompt)
    return;
  lls_disk_use(in, live->view.keys, live->disk_blocks);
}

void lls_disk_tier_keep(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  if (in->disk == NULL)
    return;
  uint32_t tokens = lls_engine_pool_shape(in->engine)->block_tokens;
  uint32_t left = (uint32_t)(MORE_BYTES / in->disk->record_bytes); /* blocks to copy */
  for (uint32_t k = 0; k < in->batch.n; k++) {
    struct lls_live *live = in->batch.live[k];
    const struct lls_engine_sequence *s = &in->batch.sequences[k];
    uint32_t full =
        lls_least_u32(live->view.n_keys, (live->context + live->run_tokens) / tokens);
    left += live->run_tokens / tokens + 1;
    while (live->disk_blocks < full &&
           keep_block(in, live, s->table, live->disk_blocks, &left))
      live->disk_blocks++;
    use_prompt(in, live);
  }
}

/* ---- what a request finds ---------------------------------------------------------- */

/* The last token is always computed. */
static uint32_t blocks_on_disk(struct lls_instance *in, const struct lls_request *r)
{
  uint32_t tokens = lls_engine_pool_shape(in->engine)->block_tokens;
  uint32_t most = lls_least_u32(r->n_keys, (lls_request_length(r) - 1) / tokens);
  uint32_t n = lls_disk_leading_blocks(in, r->keys, most);
  lls_disk_use(in, r->keys, n);
  return n;
}

uint32_t lls_disk_tier_tokens(const struct lls_instance *in, const struct lls_key *keys,
                              uint32_t n_keys)
{
  LLS_ON_STEP(in);
  return in->disk != NULL ? lls_disk_leading_blocks(in, keys, n_keys) *
                                lls_engine_pool_shape(in->engine)->block_tokens
                          : 0;
}

static uint32_t blocks_in_cache(struct lls_instance *in, struct lls_live *live)
{
  return lls_transaction_prefix(in, live, false).tokens /
         lls_engine_pool_shape(in->engine)->block_tokens;
}

/* ---- reading ----------------------------------------------------------------------- */

static struct lls_live *held(const struct lls_instance *in, uint32_t i)
{
  return lls_live_of(in->reading.items[i]);
}

/* Begins to read blocks [first, end) of the request; false: there is nothing to read. */
static bool begin_round(struct lls_instance *in, struct lls_live *live, uint32_t end)
{
  struct lls_disk_wait *w = &live->disk;
  w->first_block = w->next_block = w->landed = blocks_in_cache(in, live);
  w->end = end;
  w->ticket = ++in->disk->ticket;
  w->round++;
  return w->first_block < end && w->round <= ROUNDS;
}

static void arrive(struct lls_instance *in, struct lls_live *live)
{
  lls_request_list_remove(&in->reading, &live->view);
  in->disk->coming -= live->disk.coming;
  live->disk = (struct lls_disk_wait){0};
  lls_lifecycle_arrive(in, live);
  if (live->view.state != LLS_FINISHED &&
      atomic_load(&in->cancelled[live->view.slot]) == live->view.id)
    lls_lifecycle_finish(in, live, LLS_FINISH_CANCELLED);
}

/* Returns the request that has fewest blocks left to ask for, so that a short beginning
 * does not wait for a long one; of equal ones the first. NULL: none has any. */
static struct lls_live *shortest(const struct lls_instance *in)
{
  struct lls_live *best = NULL;
  uint32_t least = UINT32_MAX;
  for (uint32_t i = 0; i < in->reading.n; i++) {
    const struct lls_disk_wait *w = &held(in, i)->disk;
    uint32_t left = w->begun ? w->end - w->next_block : 0;
    if (left > 0 && left < least) {
      least = left;
      best = held(in, i);
    }
  }
  return best;
}

/* Asks for as many blocks as there is room for, of requests before sessions. */
static void ask(struct lls_instance *in)
{
  for (struct lls_live *live; (live = shortest(in)) != NULL;)
    for (struct lls_disk_wait *w = &live->disk; w->next_block < w->end;) {
      const struct lls_key *key = &live->view.keys[w->next_block];
      int rc = lls_block_store_get(in->disk->store, key, w->ticket);
      if (rc == -EAGAIN)
        return;
      if (rc < 0)
        w->end = w->next_block;
      else
        w->next_block++;
    }
  lls_disk_fetch_ask(in);
}

/* Takes the next block of the request, which the disk has read. */
static void take_block(struct lls_instance *in, struct lls_live *live,
                       const struct lls_block_read *read)
{
  uint32_t tokens = lls_engine_pool_shape(in->engine)->block_tokens;
  bool taken = lls_disk_land(in, &live->disk, read);
  uint32_t at = live->disk.landed++ * tokens;
  if (taken) {
    uint32_t coming = lls_least_u32(tokens, live->disk.coming);
    live->disk_tokens += tokens;
    live->disk_ahead += tokens;
    in->disk_ahead += tokens;
    live->disk.coming -= coming;
    in->disk->coming -= coming;
  }
  lls_block_events_note(in, live, at, at + tokens);
}

static struct lls_live *reader(const struct lls_instance *in, uint64_t ticket)
{
  for (uint32_t i = 0; i < in->reading.n; i++)
    if (held(in, i)->disk.ticket == ticket)
      return held(in, i);
  return NULL;
}

/* Gives the manager the blocks whose reads have ended, of each request up to one that
 * failed. */
static void take_reads(struct lls_instance *in)
{
  struct lls_block_store *store = in->disk->store;
  struct lls_live *live = NULL;
  struct lls_block_read read;
  while (lls_block_store_next(store, &read)) {
    if (live == NULL || live->disk.ticket != read.ticket)
      live = reader(in, read.ticket);
    if (live == NULL)
      lls_disk_fetch_take(in, &read);
    bool wanted = live != NULL && live->disk.landed < live->disk.end;
    if (wanted && read.record == NULL)
      live->disk.end = live->disk.landed;
    else if (wanted)
      take_block(in, live, &read);
    lls_block_store_done(store, &read);
  }
}

/* A request that is alone may take up more. */
static bool is_far_ahead(const struct lls_instance *in, const struct lls_live *live)
{
  return in->disk_ahead + in->disk->coming > 0 &&
         lls_disk_is_far_ahead(in, lls_request_length(&live->view));
}

/* Returns true if the request waits for the disk no longer. */
static bool is_over(const struct lls_instance *in, const struct lls_live *live)
{
  return lls_instance_now(in) >= live->disk.until_ns ||
         atomic_load(&in->cancelled[live->view.slot]) == live->view.id;
}

/* Continues with a held request whose reads may begin. Returns true if it has all that it
 * gets. */
static bool go_on(struct lls_instance *in, struct lls_live *live)
{
  struct lls_disk_wait *w = &live->disk;
  if (w->begun ? w->landed < w->end : lls_disk_fetch_yields(in, live))
    return false;
  if (w->begun)
    return !begin_round(in, live, w->first_block);
  w->begun = true;
  w->n_blocks = blocks_on_disk(in, &live->view);
  w->coming = w->n_blocks * lls_engine_pool_shape(in->engine)->block_tokens;
  in->disk->coming += w->coming;
  return !begin_round(in, live, w->n_blocks);
}

/* Lets requests arrive that have what they get, and begins reads of others in order of
 * arrival. One for which the device has no room yet lets others pass for half of the time
 * that it may wait. */
static void go_on_all(struct lls_instance *in)
{
  bool open = true;
  for (uint32_t i = 0; i < in->reading.n;) {
    struct lls_live *live = held(in, i);
    bool begins = live->disk.begun || (open && !is_far_ahead(in, live));
    if (is_over(in, live) || (begins && go_on(in, live))) {
      arrive(in, live);
      continue;
    }
    open &= begins || lls_instance_now(in) < live->disk.passed_until_ns;
    i++;
  }
}

bool lls_disk_tier_hold(struct lls_instance *in, struct lls_live *live)
{
  struct lls_disk_tier *d = in->disk;
  LLS_ON_STEP(in);
  if (d == NULL || in->health.failed || !LLS_HAS(&in->policies, cache, adopt) ||
      lls_live_needs_every_row(live))
    return false;
  uint32_t found = blocks_on_disk(in, &live->view);
  live->view.disk_tokens = found * lls_engine_pool_shape(in->engine)->block_tokens;
  if (found == 0 || lls_lifecycle_admit(in, live) < 0 ||
      blocks_in_cache(in, live) >= found || !live->finds_prefixes)
    return false;
  int64_t ttft_ns = live->view.slo.ttft_ns, most_ns = longest_ns;
  if (ttft_ns != LLS_NEVER && ttft_ns / TTFT_PARTS < most_ns)
    most_ns = ttft_ns / TTFT_PARTS;
  int64_t now_ns = lls_instance_now(in);
  live->disk =
      (struct lls_disk_wait){.until_ns = lls_time_after(now_ns, most_ns),
                             .passed_until_ns = lls_time_after(now_ns, most_ns / 2)};
  live->view.instance = in->info.index;
  lls_request_list_insert(&in->reading, &live->view);
  return true;
}

void lls_disk_tier_advance(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  if (in->disk == NULL)
    return;
  lls_disk_fetch_check(in);
  take_reads(in);
  go_on_all(in);
  ask(in);
}

void lls_disk_tier_arrive_all(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  if (in->disk != NULL)
    lls_disk_fetch_stop(in);
  while (in->reading.n > 0)
    arrive(in, held(in, 0));
}

void lls_disk_tier_adopt(struct lls_instance *in)
{
  struct lls_cache_info info;
  bool replaced = in->adoption.cache.replaced;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < in->reading.n && replaced; i++) {
    struct lls_live *live = held(in, i);
    live->admitted =
        in->adoption.cache.imported && lls_cache_info(in, &live->view, &info) == 0;
  }
  lls_adoption_run(in);
  lls_disk_tier_arrive_all(in);
}

void lls_disk_tier_count(struct lls_instance *in)
{
  struct lls_block_store_status s;
  struct lls_loop_status *out = &in->status;
  LLS_ON_STEP(in);
  if (in->disk == NULL)
    return;
  lls_block_store_status(in->disk->store, &s);
  out->disk_blocks_total = s.slots;
  out->disk_blocks_used = s.used;
  out->disk_blocks_held = s.held;
  out->disk_fetched_tokens = in->disk->fetched_tokens;
  out->disk_written_bytes = s.written_bytes;
  out->disk_read_bytes = s.read_bytes;
  out->disk_failed = s.failed_reads + s.failed_writes;
  if (s.last_error != 0 && !in->disk->said_full)
    lls_log(in->log, LLS_LOG_WARNING, "cache",
            "blocks cannot be written to disk: %s; they are computed again when needed",
            strerror(s.last_error));
  in->disk->said_full |= s.last_error != 0;
}
