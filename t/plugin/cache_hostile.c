/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache manager that gives random legal answers, and that checks the host: the order
 * of calls (begin, mark, reserve, commit, table, computed, release), marks that it
 * returned, no calls about released requests, and numbers that agree with its own.
 */
#include "t/plugin/cache_hostile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct params {
  int64_t seed, later, uneven, overlong;
};

#define CHECK(h, condition, ...) CONTRACT(&(h)->contract, condition, __VA_ARGS__)

/* ---- life ----------------------------------------------------------------------- */

/* The blocks of a tier; they begin where no other manager's do if there is room. */
static struct units all_free(uint32_t units, uint32_t block_units)
{
  uint32_t total = units / block_units;
  struct units u = {calloc(total + 1, sizeof *u.free), total, total};
  for (uint32_t i = 0; u.free != NULL && i < total; i++)
    u.free[i] = i * block_units + units % block_units;
  return u;
}

static void destroy(void *self)
{
  struct hostile *h = self;
  hostile_forget(h);
  for (uint32_t i = 0; i < h->n_slots && h->sequences != NULL; i++)
    free(h->sequences[i].list.entries);
  free(h->sequences);
  free(h->lists);
  free(h->device.free);
  free(h->host.free);
  free(h->copies);
  free(h->undo);
  free(h);
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  const struct params *p = params;
  struct hostile *h = calloc(1, sizeof *h);
  if (h == NULL)
    return -ENOMEM;
  h->contract = (struct contract){.host = host, .random_state = (uint64_t)p->seed};
  contract_host(&h->contract, host);
  CHECK(h, g->size >= sizeof *g && g->block_tokens > 0 && g->unit_bytes > 0,
        "create: bad geometry");
  h->later = (uint32_t)p->later;
  h->uneven = (uint32_t)p->uneven;
  h->overlong = (uint32_t)p->overlong;
  h->block_tokens = g->block_tokens;
  h->max_context = host->engine->max_context;
  h->n_slots = host->engine->max_requests;
  h->sequences = calloc(h->n_slots, sizeof *h->sequences);
  h->lists = calloc(h->n_slots, sizeof *h->lists);
  h->block_units = host->engine->groups[0]->forms[0].block_units;
  h->device = all_free(g->device_units, h->block_units);
  h->host = all_free(g->host_units, h->block_units);
  if (h->sequences == NULL || h->lists == NULL || h->device.free == NULL ||
      h->host.free == NULL) {
    destroy(h);
    return -ENOMEM;
  }
  *self = h;
  return 0;
}

/* Returns the sequence of a request that the host may refer to; NULL after a
 * complaint. */
static struct sequence *known(struct hostile *h, const struct lls_request *r,
                              const char *where)
{
  if (!CHECK(h, r != NULL && r->slot < h->n_slots, "%s: bad request", where))
    return NULL;
  struct sequence *s = &h->sequences[r->slot];
  bool good =
      CHECK(h, s->handle != NULL,
            "%s: request %" PRIu64 " was not admitted, or "
            "has been released",
            where, r->id) &&
      CHECK(h, s->handle == r && s->id == r->id,
            "%s: request %" PRIu64 " has another handle than at admit", where, r->id);
  return good ? s : NULL;
}

static int admit(void *self, const struct lls_request *r)
{
  struct hostile *h = self;
  if (!CHECK(h, r->slot < h->n_slots, "admit: slot %u of %u", r->slot, h->n_slots))
    return -EINVAL;
  struct sequence *s = &h->sequences[r->slot];
  CHECK(h, s->handle == NULL, "admit: slot %u is taken", r->slot);
  CHECK(h, !h->open, "admit: in a transaction");
  CHECK(h, r->cached_tokens == 0 && r->prompt_tokens > 0, "admit: not new");
  free(s->list.entries);
  *s = (struct sequence){.handle = r, .id = r->id};
  /* moved lists keep their length, so no list is longer */
  s->list.entries = calloc(h->max_context + 1, sizeof(struct lls_block_entry));
  return s->list.entries != NULL ? 0 : -ENOMEM;
}

static void release(void *self, const struct lls_request *r,
                    const struct lls_release *how)
{
  struct hostile *h = self;
  struct sequence *s = known(h, r, "release");
  CHECK(h, how->size >= sizeof *how, "release: %u bytes", how->size);
  CHECK(h, !h->open, "release: in a transaction");
  if (s == NULL)
    return;
  hostile_drop(h, s);
  s->handle = NULL;
  s->reserved = false;
}

/* ---- the transaction ------------------------------------------------------------ */

static int begin(void *self)
{
  struct hostile *h = self;
  CHECK(h, !h->open, "begin: a transaction is open");
  for (uint32_t i = 0; i < h->n_slots; i++) {
    struct sequence *s = &h->sequences[i];
    CHECK(h, s->handle == NULL || !s->reserved,
          "begin: request %" PRIu64 " was reserved and neither computed nor released",
          s->id);
    s->reserved = s->preempted = false;
  }
  h->open = true;
  h->n_copies = 0;
  return 0;
}

static uint32_t mark(void *self)
{
  struct hostile *h = self;
  CHECK(h, h->open, "mark: no transaction");
  if (h->n_undo > 0)
    h->undo[h->n_undo - 1].marked = true;
  return h->n_undo;
}

static int rollback(void *self, uint32_t to)
{
  struct hostile *h = self;
  if (!CHECK(h, h->open, "rollback: no transaction") ||
      !CHECK(h, to <= h->n_undo && (to == 0 || h->undo[to - 1].marked),
             "rollback: %u is no mark", to))
    return -EINVAL;
  hostile_undo(h, to);
  return 0;
}

static int commit(void *self)
{
  struct hostile *h = self;
  CHECK(h, h->open, "commit: no transaction");
  hostile_forget(h);
  h->open = false;
  return 0;
}

static void check_reserve(struct hostile *h, const struct sequence *s,
                          const struct lls_request *r, uint32_t tokens, uint32_t form)
{
  CHECK(h, h->open, "reserve: no transaction");
  CHECK(h, !s->preempted, "reserve: what was preempted in this transaction");
  CHECK(h, r->cached_tokens == s->cached, "reserve: %u tokens are cached, not %u",
        s->cached, r->cached_tokens);
  CHECK(h, tokens > 0 && tokens <= lls_request_pending(r), "reserve: %u tokens of %u",
        tokens, lls_request_pending(r));
  CHECK(h, form == LLS_FORM_NONE || form == LLS_FORM_KV, "reserve: form %u", form);
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct hostile *h = self;
  struct sequence *s = known(h, r, "reserve");
  (void)flags;
  if (s == NULL)
    return -EINVAL;
  check_reserve(h, s, r, tokens, form);
  uint32_t wanted = s->cached + tokens;
  uint32_t blocks = (wanted + h->block_tokens - 1) / h->block_tokens;
  if (wanted > h->max_context || blocks > h->device.total)
    return LLS_RESERVE_NEVER;
  if (contract_chance(&h->contract, h->later))
    return LLS_RESERVE_LATER;
  uint32_t before = h->n_undo;
  hostile_put_aside(h, s);
  if ((!s->on_host || hostile_move(h, s)) && hostile_grow(h, s, wanted)) {
    s->reserved = true;
    return LLS_RESERVE_OK;
  }
  hostile_undo(h, before);
  /* Unevenly cut, it would not fit even alone. */
  return hostile_alone(h, s) ? LLS_RESERVE_NEVER : LLS_RESERVE_LATER;
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct hostile *h = self;
  struct sequence *s = known(h, r, "preempt");
  CHECK(h, h->open, "preempt: no transaction");
  CHECK(h, mode == LLS_PREEMPT_RECOMPUTE || mode == LLS_PREEMPT_SWAP, "preempt: mode %u",
        mode);
  if (s == NULL || !CHECK(h, !s->preempted, "preempt: twice"))
    return -EINVAL;
  CHECK(h, !s->reserved, "preempt: what was reserved in this transaction");
  if (mode == LLS_PREEMPT_SWAP && h->host.total == 0)
    return -ENOTSUP;
  if (mode == LLS_PREEMPT_SWAP && contract_chance(&h->contract, h->later))
    return -ENOSPC;
  uint32_t before = h->n_undo;
  hostile_put_aside(h, s);
  s->preempted = true;
  if (mode == LLS_PREEMPT_RECOMPUTE)
    hostile_drop(h, s);
  else if (!s->on_host && !hostile_move(h, s)) {
    hostile_undo(h, before);
    return -ENOSPC;
  }
  return 0;
}

static void computed(void *self, const struct lls_request *r, uint32_t cached_tokens)
{
  struct hostile *h = self;
  struct sequence *s = known(h, r, "computed");
  if (s == NULL)
    return;
  CHECK(h, !h->open, "computed: in a transaction");
  CHECK(h, s->reserved, "computed: not reserved in this step, or twice");
  CHECK(h, cached_tokens > s->cached && cached_tokens <= s->list.room,
        "computed: %u tokens after %u with room for %u", cached_tokens, s->cached,
        s->list.room);
  s->cached = cached_tokens;
  s->reserved = false;
}

/* ---- questions ------------------------------------------------------------------ */

static int capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  struct hostile *h = self;
  CHECK(h, out->size >= sizeof *out, "capacity: %u bytes", out->size);
  const struct units *u = tier == LLS_TIER_DEVICE ? &h->device : &h->host;
  *out = (struct lls_capacity){.size = out->size,
                               .total_units = h->block_units * u->total,
                               .free_units = h->block_units * u->n};
  return tier <= LLS_TIER_HOST ? 0 : -ENOTSUP;
}

static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  struct hostile *h = self;
  const struct sequence *s = known(h, r, "need");
  (void)form;
  if (s == NULL)
    return -EINVAL;
  CHECK(h, out->size >= sizeof *out, "need: %u bytes", out->size);
  uint64_t wanted = (uint64_t)s->cached + tokens, room = s->list.room;
  out->new_units =
      wanted > room ? h->block_units * (uint32_t)((wanted - room + h->block_tokens - 1) /
                                                  h->block_tokens)
                    : 0;
  out->restore_units = s->on_host ? h->block_units * s->list.n : 0;
  return 0;
}

/* Nothing as a rule; where it breaks its contract, and has room, all that the request has
 * and more. */
static int prefix(void *self, const struct lls_request *r, bool take,
                  struct lls_prefix *out)
{
  struct hostile *h = self;
  struct sequence *s = known(h, r, "prefix");
  uint32_t length = lls_request_length(r);
  CHECK(h, out->size >= sizeof *out, "prefix: %u bytes", out->size);
  if (s == NULL || h->overlong == 0 || !contract_chance(&h->contract, h->overlong))
    return 0;
  out->tokens = length;
  if (!take)
    return 0;
  CHECK(h, h->open, "prefix: takes without a transaction");
  hostile_put_aside(h, s);
  if (!hostile_grow(h, s, length)) {
    hostile_undo(h, h->n_undo - 1);
    out->tokens = 0;
    return 0;
  }
  s->cached = length;
  out->tokens += contract_chance(&h->contract, 50);
  return 0;
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  struct hostile *h = self;
  const struct sequence *s = known(h, r, "info");
  if (s == NULL)
    return -EINVAL;
  CHECK(h, out->size >= sizeof *out, "info: %u bytes", out->size);
  uint32_t units = h->block_units * s->list.n;
  *out = (struct lls_cache_info){.size = out->size, .cached_tokens = s->cached};
  if (units == 0)
    return 0;
  out->form = LLS_FORM_KV;
  out->residency = s->on_host ? LLS_RESIDENT_HOST : LLS_RESIDENT_DEVICE;
  out->missing_tokens = s->on_host ? s->cached : 0;
  *(s->on_host ? &out->host_units : &out->device_units) = units;
  out->owned_units = out->device_units;
  out->free_slots = s->list.room - s->cached;
  return 0;
}

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  struct hostile *h = self;
  const struct sequence *s = known(h, r, "table");
  if (s == NULL)
    return -EINVAL;
  CHECK(h, !h->open, "table: before commit");
  CHECK(h, s->reserved, "table: not reserved in this step");
  h->lists[r->slot] =
      (struct lls_group_list){.entries = s->list.entries, .n_entries = s->list.n};
  *out = (struct lls_block_table){.n_groups = 1, .lists = &h->lists[r->slot]};
  return s->on_host ? -EINVAL : 0;
}

static size_t copies(void *self, const struct lls_copy **out)
{
  struct hostile *h = self;
  CHECK(h, !h->open, "copies: before commit");
  *out = h->copies;
  return h->n_copies;
}

static uint32_t preempt_modes(void *self)
{
  const struct hostile *h = self;
  return 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER |
         (h->host.total > 0 ? 1u << LLS_PREEMPT_SWAP : 0);
}

/* ---- audit ---------------------------------------------------------------------- */

static void say(const struct lls_sink *sink, const char *name, uint32_t a, uint32_t b,
                uint32_t c)
{
  char line[128];
  snprintf(line, sizeof line, "%s %u %u %u", name, a, b, c);
  sink->text(sink->context, line);
}

static int audit(void *self, const struct lls_sink *sink)
{
  const struct hostile *h = self;
  const struct units *tiers[] = {&h->device, &h->host};
  uint32_t held[2] = {0, 0};
  for (uint32_t i = 0; i < h->n_slots; i++) {
    const struct sequence *s = &h->sequences[i];
    if (s->handle == NULL)
      continue;
    say(sink, "slot, cached, on host:", i, s->cached, s->on_host);
    for (uint32_t j = 0; j < s->list.n; j++) {
      const struct lls_block_entry *e = &s->list.entries[j];
      say(sink, "  block", e->block, e->first_token, e->count);
      held[s->on_host]++;
    }
  }
  for (uint32_t t = 0; t < 2; t++) {
    for (uint32_t i = 0; i < tiers[t]->n; i++)
      say(sink, "free", t, i, tiers[t]->free[i]);
    if (tiers[t]->n + held[t] != tiers[t]->total)
      return h->contract.host->fail(h->contract.host->context, -EIO,
                                    "audit: blocks of tier %u were lost", t);
  }
  return h->contract.broken == 0 ? 0 : -EIO;
}

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(struct params, seed, "1", 0, 1e15, "", "of its random choices"),
    LLS_PARAM_INT(struct params, later, "10", 0, 90, "%",
                  "how often reserve says LATER without a reason"),
    LLS_PARAM_INT(struct params, uneven, "25", 0, 100, "%",
                  "how many entries have room for less than a block"),
    LLS_PARAM_INT(struct params, overlong, "0", 0, 100, "%",
                  "how often prefix has as many tokens as the request or more"),
};

static const struct lls_cache_vtable vtable = {
    BASE_OWN,
    .create = create,
    .release = release,
    .table = table,
    .caps = &base_caps,
    .begin = begin,
    .mark = mark,
    .rollback = rollback,
    .commit = commit,
    .copies = copies,
    .preempt_modes = preempt_modes,
    .prefix = prefix,
};

BASE_PLUGIN("hostile", "answers anything it may, checks the host", &vtable,
            LLS_PLUGIN_PARAMS(parameters, struct params));
