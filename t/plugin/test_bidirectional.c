/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bidirectional cache: the worked examples of BROS slot by slot; random traces that
 * follow every token through slots, copies and restores; what is refused when; exact
 * rollback; handing over.
 */
#include "t/plugin/transactions.h"

#include <string.h>

#define S 4 /* slots of a block, as in the worked examples */

static const struct fake_options defaults = {
    .scheduler = {"fcfs", (const char *const[]){"watermark", "0", NULL}},
    .cache = {"bidirectional", NULL},
    .block_tokens = S,
    .device_units = 2,
    .host_units = 32,
    .max_tokens = 1024,
    .max_sequences = 16,
    .max_context = 256,
    .max_requests = 32,
    .audit = true,
};

static uint32_t host_free(struct fake *f)
{
  struct lls_capacity c = {.size = sizeof c};
  assert_int_equal(f->c->capacity(f->cache_self, LLS_TIER_HOST, &c), 0);
  return c.free_units;
}

static void open_with(struct fake *f, uint32_t blocks, uint32_t host_blocks,
                      const char *const *parameters)
{
  struct fake_options o = defaults;
  o.cache.parameters = parameters;
  o.device_units = 2 * blocks;
  o.host_units = 2 * host_blocks;
  assert_int_equal(fake_open(f, &o), 0);
}

static struct fake_request *request(struct fake *f, uint32_t class)
{
  f->next.request_class = class;
  return submit(f, 0, 60, 100);
}

/* ---- steps of one request ---------------------------------------------------------- */

static void carry_out(struct fake *f)
{
  const struct lls_copy *copies;
  size_t n = f->c->copies(f->cache_self, &copies);
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(copies[i].order, LLS_COPY_BEFORE_STEP);
    fake_memory_copy(&f->memory, &copies[i]);
    f->copies[copies[i].kind]++;
  }
}

/* In the open transaction: what it said. */
static int reserve(struct fake *f, struct fake_request *r, uint32_t tokens)
{
  uint32_t flags = r->view.request_class == LLS_CLASS_BEST_EFFORT ? 0 : LLS_MAY_DISPLACE;
  return f->c->reserve(f->cache_self, &r->view, tokens, LLS_FORM_NONE, flags);
}

/* After the step's copies: all before is read as it was written, the new is written. */
static void run(struct fake *f, struct fake_request *r, uint32_t tokens)
{
  struct lls_block_table table;
  uint32_t before = info_of(f, r).cached_tokens;
  assert_int_equal(f->c->table(f->cache_self, &r->view, &table), 0);
  fake_memory_check(&f->memory, &table, r->digests, before);
  fake_memory_write(&f->memory, &table, r->digests, before, before + tokens);
  f->c->computed(f->cache_self, &r->view, before + tokens);
  assert_int_equal(info_of(f, r).cached_tokens, before + tokens);
}

/* A step of one request; what reserve said. */
static int try_step(struct fake *f, struct fake_request *r, uint32_t tokens)
{
  assert_int_equal(f->c->begin(f->cache_self), 0);
  int rc = reserve(f, r, tokens);
  assert_int_equal(fake_audit(f), 0);
  assert_int_equal(f->c->commit(f->cache_self), 0);
  carry_out(f);
  if (rc == LLS_RESERVE_OK)
    run(f, r, tokens);
  assert_int_equal(fake_audit(f), 0);
  return rc;
}

static void step(struct fake *f, struct fake_request *r, uint32_t tokens)
{
  if (try_step(f, r, tokens) != LLS_RESERVE_OK)
    fail_msg("no room for %u tokens of request %llu", tokens,
             (unsigned long long)r->view.id);
}

/* ---- the worked examples ----------------------------------------------------------- */

/* "a3 a2 .. B0": who has the slots of a block; `names` are of the requests by id. */
static const char *slots_of(const struct fake *f, uint32_t block, const char *names)
{
  static char text[8 * S];
  size_t n = 0;
  for (uint32_t slot = 0; slot < S; slot++) {
    uint64_t *k = &f->memory.slots[LLS_TIER_DEVICE][(size_t)2 * 2 * block * S + slot];
    uint64_t *v = k + 2 * S;
    const char *before = n > 0 ? " " : "";
    bool known = false;
    for (uint32_t i = 0; i < f->o.max_requests && !known; i++)
      for (uint32_t t = 0; f->by_slot[i] != NULL && t < 60 && !known; t++)
        if ((*k ^ 0x4b4b4b4b) == f->by_slot[i]->digests[t]) {
          assert_int_equal(*v ^ 0x56565656, f->by_slot[i]->digests[t]);
          n += (size_t)sprintf(text + n, "%s%c%u", before, names[f->by_slot[i]->view.id],
                               t);
          known = true;
        }
    if (!known)
      n += (size_t)sprintf(text + n, "%s--", before);
  }
  return text;
}

static void assert_missing(struct fake *f, const struct fake_request *r, uint32_t tokens)
{
  struct lls_cache_info info = info_of(f, r);
  assert_int_equal(info.missing_tokens, tokens);
  assert_int_equal(info.residency, tokens == 0                   ? LLS_RESIDENT_DEVICE
                                   : tokens < info.cached_tokens ? LLS_RESIDENT_PARTIAL
                                                                 : LLS_RESIDENT_HOST);
}

static uint32_t copied_out(struct fake *f)
{
  return f->copies[LLS_COPY_DEVICE_TO_HOST];
}

/* Example 3: one block; a best-effort request loses slots one after another, and gets
 * them back. */
static void test_example_3(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, 1, 4, NULL);
  struct fake_request *a = request(&f, LLS_CLASS_BEST_EFFORT);
  struct fake_request *b = request(&f, LLS_CLASS_REALTIME);
  step(&f, a, 4);
  assert_string_equal(slots_of(&f, 0, "aB"), "a3 a2 a1 a0");
  step(&f, b, 2);
  assert_string_equal(slots_of(&f, 0, "aB"), "B0 B1 a1 a0");
  assert_missing(&f, a, 2);
  assert_int_equal(copied_out(&f), 2); /* a2 and a3 at once, K and V */
  step(&f, b, 1);
  assert_string_equal(slots_of(&f, 0, "aB"), "B0 B1 B2 a0");
  assert_missing(&f, a, 3);
  assert_int_equal(copied_out(&f), 4);
  assert_int_equal(try_step(&f, a, 0), LLS_RESERVE_LATER);
  fake_cancel(&f, b);
  step(&f, a, 0);
  assert_string_equal(slots_of(&f, 0, "aB"), "a3 a2 a1 a0");
  assert_missing(&f, a, 0);
  assert_int_equal(f.copies[LLS_COPY_HOST_TO_DEVICE], 2);
  fake_cancel(&f, a);
  assert_int_equal(free_units(&f), 2);
  fake_close(&f);
}

/* Example 4: what can't go back where it was goes on in another block, right behind. */
static void test_example_4(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, 2, 4, NULL);
  struct fake_request *a = request(&f, LLS_CLASS_BEST_EFFORT);
  struct fake_request *d = request(&f, LLS_CLASS_REALTIME);
  struct fake_request *b = request(&f, LLS_CLASS_REALTIME);
  struct lls_block_table t;
  step(&f, a, 4);
  step(&f, d, 1);
  step(&f, b, 3);
  assert_string_equal(slots_of(&f, 0, "adB"), "B0 B1 B2 a0");
  assert_string_equal(slots_of(&f, 1, "adB"), "d0 -- -- --");
  step(&f, a, 0);
  assert_string_equal(slots_of(&f, 0, "adB"), "B0 B1 B2 a0");
  assert_string_equal(slots_of(&f, 1, "adB"), "d0 a3 a2 a1");
  assert_int_equal(f.c->table(f.cache_self, &a->view, &t), 0);
  const struct lls_block_entry expected[] = {
      {.block = 0, .first_token = 0, .count = 1, .direction = LLS_RIGHT_TO_LEFT},
      {.block = 2, .first_token = 1, .count = 3, .direction = LLS_RIGHT_TO_LEFT}};
  assert_int_equal(t.k_count, 2);
  assert_memory_equal(t.k, expected, sizeof expected);
  fake_cancel(&f, b);
  fake_cancel(&f, a);
  fake_cancel(&f, d);
  assert_int_equal(free_units(&f), 4);
  fake_close(&f);
}

/* A copy on the host is made once, however often its token loses its slot: unless it is
 * not kept. */
static void test_copies_are_kept(void **state)
{
  (void)state;
  static const char *const dropped[] = {"keep_host_copy", "off", NULL};
  for (int keep = 0; keep < 2; keep++) {
    struct fake f;
    open_with(&f, 1, 4, keep ? NULL : dropped);
    struct fake_request *a = request(&f, LLS_CLASS_BEST_EFFORT);
    step(&f, a, 4);
    for (int i = 0; i < 3; i++) {
      struct fake_request *b = request(&f, LLS_CLASS_REALTIME);
      step(&f, b, 4);
      assert_missing(&f, a, 4);
      fake_cancel(&f, b);
      step(&f, a, 0);
      assert_int_equal(copied_out(&f), keep ? 2 : 2 * (i + 1));
      assert_int_equal(info_of(&f, a).host_units, keep ? 2 : 0);
    }
    fake_cancel(&f, a);
    fake_close(&f);
  }
}

/* ---- what is refused, and who goes first ------------------------------------------- */

/* Who has room in this step loses none of it. */
static void test_nobody_in_the_step_is_displaced(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, 1, 4, NULL);
  struct fake_request *a = request(&f, LLS_CLASS_BEST_EFFORT);
  struct fake_request *b = request(&f, LLS_CLASS_REALTIME);
  step(&f, a, 2);
  f.c->begin(f.cache_self);
  assert_int_equal(reserve(&f, a, 1), LLS_RESERVE_OK);
  assert_int_equal(reserve(&f, b, 2), LLS_RESERVE_LATER);
  assert_int_equal(reserve(&f, b, 1), LLS_RESERVE_OK);
  f.c->commit(f.cache_self);
  carry_out(&f);
  run(&f, a, 1);
  run(&f, b, 1);
  assert_string_equal(slots_of(&f, 0, "aB"), "B0 a2 a1 a0");
  fake_close(&f);
}

/* Without LLS_MAY_DISPLACE, and for a best-effort request, what others have is theirs. */
static void test_only_who_may_displaces(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, 2, 4, NULL);
  struct fake_request *a = request(&f, LLS_CLASS_BEST_EFFORT);
  struct fake_request *b = request(&f, LLS_CLASS_NONE);
  struct fake_request *d = request(&f, LLS_CLASS_NONE);
  step(&f, a, 3);
  step(&f, d, 1); /* three more slots, for which b is of the wrong class */
  f.c->begin(f.cache_self);
  assert_int_equal(f.c->reserve(f.cache_self, &b->view, 2, LLS_FORM_NONE, 0),
                   LLS_RESERVE_LATER);
  f.c->commit(f.cache_self);
  step(&f, b, 3); /* one slot is free, two are displaced */
  assert_missing(&f, a, 2);
  f.c->begin(f.cache_self);
  assert_int_equal(
      f.c->reserve(f.cache_self, &a->view, 2, LLS_FORM_NONE, LLS_MAY_DISPLACE),
      LLS_RESERVE_LATER);
  assert_int_equal(reserve(&f, a, 6), LLS_RESERVE_NEVER);
  assert_int_equal(reserve(&f, b, 6), LLS_RESERVE_NEVER);
  f.c->commit(f.cache_self);
  fake_close(&f);
}

/* A full host: copies that nobody needs make room; where all are needed nothing more is
 * displaced. */
static void test_full_host(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, 2, 1, NULL);
  struct fake_request *a = request(&f, LLS_CLASS_BEST_EFFORT);
  struct fake_request *c = request(&f, LLS_CLASS_BEST_EFFORT);
  struct fake_request *b = request(&f, LLS_CLASS_REALTIME);
  step(&f, a, 4);
  step(&f, c, 4);
  step(&f, b, 4);
  assert_missing(&f, a, 4);
  assert_int_equal(try_step(&f, b, 1), LLS_RESERVE_LATER);
  assert_int_equal(host_free(&f), 0);
  fake_cancel(&f, b);
  step(&f, a, 0);
  assert_int_equal(host_free(&f), 2); /* held, but to be had */
  b = request(&f, LLS_CLASS_REALTIME);
  fake_cancel(&f, a);
  a = request(&f, LLS_CLASS_REALTIME);
  step(&f, a, 4);
  step(&f, b, 4); /* c's go where a's were */
  assert_missing(&f, c, 4);
  fake_cancel(&f, a);
  step(&f, c, 0);
  fake_close(&f);
}

/* Without a host tier nobody can be displaced or swapped. */
static void test_no_host(void **state)
{
  (void)state;
  struct fake f;
  open_with(&f, 1, 0, NULL);
  struct fake_request *a = request(&f, LLS_CLASS_BEST_EFFORT);
  struct fake_request *b = request(&f, LLS_CLASS_REALTIME);
  step(&f, a, 3);
  assert_int_equal(try_step(&f, b, 2), LLS_RESERVE_LATER);
  step(&f, b, 1);
  assert_int_equal(f.c->preempt_modes(f.cache_self) & 1u << LLS_PREEMPT_SWAP, 0);
  fake_close(&f);
}

/* Off: a block has one owner, all fill it from the left, and nobody is displaced. */
static void test_off(void **state)
{
  (void)state;
  static const char *const off[] = {"mode", "off", NULL};
  struct fake f;
  struct lls_block_table t;
  open_with(&f, 2, 4, off);
  struct fake_request *a = request(&f, LLS_CLASS_BEST_EFFORT);
  struct fake_request *b = request(&f, LLS_CLASS_REALTIME);
  struct fake_request *c = request(&f, LLS_CLASS_REALTIME);
  step(&f, a, 1);
  assert_int_equal(f.c->table(f.cache_self, &a->view, &t), 0);
  assert_int_equal(t.k[0].direction, LLS_LEFT_TO_RIGHT);
  step(&f, b, 1);
  assert_int_equal(try_step(&f, c, 1), LLS_RESERVE_LATER);
  assert_int_equal(try_step(&f, b, 4), LLS_RESERVE_LATER);
  assert_missing(&f, a, 0);
  f.c->begin(f.cache_self);
  assert_int_equal(f.c->preempt(f.cache_self, &a->view, LLS_PREEMPT_SWAP), -ENOTSUP);
  assert_int_equal(f.c->preempt(f.cache_self, &a->view, LLS_PREEMPT_RECOMPUTE), 0);
  f.c->commit(f.cache_self);
  step(&f, b, 4);
  fake_close(&f);
}

/* Swapped out in part already, then as a whole: a copy for each token, once. */
static void test_swap(void **state)
{
  (void)state;
  struct fake f;
  struct lls_need need = {.size = sizeof need};
  open_with(&f, 3, 8, NULL);
  struct fake_request *a = request(&f, LLS_CLASS_BEST_EFFORT);
  struct fake_request *b = request(&f, LLS_CLASS_REALTIME);
  step(&f, a, 10);
  step(&f, b, 3);
  assert_missing(&f, a, 1); /* the last block has two free slots */
  f.c->begin(f.cache_self);
  assert_int_equal(f.c->preempt(f.cache_self, &a->view, LLS_PREEMPT_SWAP), 0);
  f.c->commit(f.cache_self);
  carry_out(&f);
  assert_missing(&f, a, 10);
  assert_int_equal(free_units(&f), 4);
  f.c->need(f.cache_self, &a->view, 1, LLS_FORM_NONE, &need);
  assert_int_equal(need.restore_units, 6);
  fake_cancel(&f, b);
  step(&f, a, 1);
  assert_int_equal(info_of(&f, a).device_units, 6);
  fake_close(&f);
}

/* ---- handed over ------------------------------------------------------------------- */

static void *manager_of(struct fake *f, const struct lls_cache_vtable *c,
                        const void *params)
{
  const struct lls_cache_geometry g = {
      .size = sizeof g,
      .block_tokens = f->o.block_tokens,
      .unit_bytes = 32 * f->o.block_tokens,
      .device_units = f->o.device_units,
      .host_units = f->o.host_units,
  };
  void *self;
  assert_int_equal(c->create(&f->host, params, &g, &self), 0);
  return self;
}

/* A new generation goes on where the old one was: displaced tokens, copies and all. */
static void test_handed_over(void **state)
{
  (void)state;
  struct fake f;
  struct lls_blob blob = {0};
  open_with(&f, 3, 8, NULL);
  struct fake_request *a = request(&f, LLS_CLASS_BEST_EFFORT);
  struct fake_request *b = request(&f, LLS_CLASS_REALTIME);
  step(&f, a, 10);
  step(&f, b, 3);
  assert_int_equal(fake_audit(&f), 0);
  char *before = strdup(f.text);
  void *old = f.cache_self;
  assert_int_equal(f.c->export_state(old, &blob), 0);
  f.cache_self = manager_of(&f, f.c, f.cache.params);
  struct lls_blob torn = blob;
  torn.bytes--;
  assert_true(f.c->import_state(f.cache_self, &torn) < 0);
  assert_int_equal(free_units(&f), 6);
  assert_int_equal(f.c->import_state(f.cache_self, &blob), 0);
  assert_int_equal(fake_audit(&f), 0);
  *strstr(f.text, "copies") = '\0'; /* those are of a step */
  assert_int_equal(strncmp(f.text, before, strlen(f.text)), 0);
  f.c->destroy(old);
  step(&f, b, 1);
  fake_cancel(&f, b);
  step(&f, a, 1);
  free(before);
  free(blob.data);
  fake_close(&f);
}

/* What lies as in every cache comes from another one, and goes to it: the rest does not.
 */
static void test_other_managers(void **state)
{
  (void)state;
  struct fake f;
  struct lls_blob blob = {0};
  struct harness_policy paged = {"paged", NULL};
  struct harness_loaded loaded;
  struct lls_error err;
  assert_int_equal(policy_load(LLS_KIND_CACHE, &paged, &loaded, &err), 0);
  const struct lls_cache_vtable *other = &loaded.module->cache;
  open_with(&f, 6, 8, NULL);
  struct fake_request *b = request(&f, LLS_CLASS_REALTIME);
  struct fake_request *a = request(&f, LLS_CLASS_BEST_EFFORT);
  struct lls_cache_info info = {.size = sizeof info};
  step(&f, b, 10);
  step(&f, a, 5);
  assert_int_equal(f.c->export_state(f.cache_self, &blob), 0);
  void *there = manager_of(&f, other, loaded.params);
  assert_int_equal(other->import_state(there, &blob), 0);
  assert_int_equal(other->info(there, &b->view, &info), 0);
  assert_int_equal(info.cached_tokens, 10);
  assert_true(other->info(there, &a->view, &info) < 0);
  free(blob.data);
  assert_int_equal(other->export_state(there, &blob), 0);
  f.c->destroy(f.cache_self);
  f.cache_self = manager_of(&f, f.c, f.cache.params);
  assert_int_equal(f.c->import_state(f.cache_self, &blob), 0);
  assert_int_equal(fake_audit(&f), 0);
  assert_int_equal(f.c->admit(f.cache_self, &a->view), 0);
  step(&f, b, 3);
  step(&f, a, 4);
  assert_int_equal(f.c->info(f.cache_self, &b->view, &info), 0);
  assert_int_equal(info.cached_tokens, 13);
  other->destroy(there);
  free(blob.data);
  policy_unload(&loaded);
  fake_close(&f);
}

static void test_rollback_is_exact(void **state)
{
  (void)state;
  struct fake_options o = defaults;
  o.device_units = 60, o.host_units = 40, o.block_tokens = 16;
  check_rollback(&o);
}

/* ---- random traces ----------------------------------------------------------------- */

/* Who has a slot of the K units, as the tables of what ran say it. */
struct owner {
  const struct fake_request *request; /* NULL: nobody */
  uint32_t token;
};

struct trace {
  struct fake f;
  struct owner *owners; /* (blocks, slots of a block) */
  uint32_t runs[32];    /* tokens a request is to compute in this step, by its slot */
  bool left[32];        /* in this step it was taken off the device */
  uint32_t n_runs, refused;
};

static bool best_effort(const struct fake_request *r)
{
  return r->view.request_class == LLS_CLASS_BEST_EFFORT;
}

static struct owner *owners_of(struct trace *t, uint32_t block)
{
  return &t->owners[(size_t)block * t->f.o.block_tokens];
}

static void forget(struct trace *t, const struct fake_request *r)
{
  for (uint32_t i = 0; i < t->f.o.device_units / 2 * t->f.o.block_tokens; i++)
    if (t->owners[i].request == r)
      t->owners[i].request = NULL;
}

/* Invariant 6: who had a slot was a best-effort request, who has it now is none; or it
 * has just left. */
static void take_slot(struct trace *t, struct owner *slot, const struct fake_request *r,
                      uint32_t token)
{
  const struct fake_request *q = slot->request;
  if (q != NULL && q != r && !t->left[q->view.slot]) {
    assert_true(best_effort(q) && !best_effort(r));
    assert_int_equal(t->runs[q->view.slot], 0);
  }
  *slot = (struct owner){r, token};
}

static void take_slots(struct trace *t, const struct fake_request *r, uint32_t n)
{
  struct lls_block_table table;
  uint32_t most = t->f.o.block_tokens;
  assert_int_equal(t->f.c->table(t->f.cache_self, &r->view, &table), 0);
  for (uint32_t i = 0; i < table.k_count; i++) {
    const struct lls_block_entry *e = &table.k[i];
    assert_int_equal(e->direction,
                     best_effort(r) ? LLS_RIGHT_TO_LEFT : LLS_LEFT_TO_RIGHT);
    assert_int_equal(table.v[i].block, e->block + 1);
    for (uint32_t j = 0; j < e->count && e->first_token + j < n; j++) {
      uint32_t slot = best_effort(r) ? most - 1 - j : j;
      take_slot(t, &owners_of(t, e->block / 2)[slot], r, e->first_token + j);
    }
  }
}

/* Invariants 5 and 8: in a block real-time tokens lie from the left and best-effort ones
 * from the right, of one request each, in order and without a gap. */
static void check_block(struct trace *t, uint32_t block)
{
  uint32_t n = t->f.o.block_tokens;
  const struct owner *slots = owners_of(t, block);
  for (uint32_t i = 0; i < n; i++) {
    if (slots[i].request == NULL)
      continue;
    bool right = best_effort(slots[i].request), first = i == (right ? n - 1 : 0);
    const struct owner *before = first ? NULL : &slots[right ? i + 1 : i - 1];
    if (before != NULL) {
      assert_ptr_equal(before->request, slots[i].request);
      assert_int_equal(before->token + 1, slots[i].token);
    }
  }
}

/* What a request does not have on the device is what info says it misses. */
static void check_places(struct trace *t)
{
  uint32_t blocks = t->f.o.device_units / 2, resident[32] = {0};
  for (uint32_t b = 0; b < blocks; b++)
    check_block(t, b);
  for (uint32_t i = 0; i < blocks * t->f.o.block_tokens; i++)
    if (t->owners[i].request != NULL)
      resident[t->owners[i].request->view.slot]++;
  for (uint32_t i = 0; i < t->f.o.max_requests; i++)
    if (t->f.by_slot[i] != NULL) {
      struct lls_cache_info info = info_of(&t->f, t->f.by_slot[i]);
      assert_int_equal(info.cached_tokens - info.missing_tokens, resident[i]);
    }
}

/* Room for some tokens of one, taken back now and then. */
static void try_run(struct trace *t, struct fake_request *r)
{
  struct fake *f = &t->f;
  uint32_t left = lls_request_length(&r->view) - info_of(f, r).cached_tokens;
  if (left == 0 || t->runs[r->view.slot] > 0 || t->left[r->view.slot])
    return;
  uint32_t tokens = fake_between(f, 1, left < 12 ? left : 12);
  uint32_t mark = f->c->mark(f->cache_self);
  bool displace = !best_effort(r) && fake_between(f, 0, 9) > 0;
  fake_audit(f);
  char *before = strdup(f->text);
  int rc = f->c->reserve(f->cache_self, &r->view, tokens, LLS_FORM_NONE,
                         displace ? LLS_MAY_DISPLACE : 0);
  if (rc == LLS_RESERVE_OK && fake_between(f, 0, 5) > 0) {
    t->runs[r->view.slot] = tokens;
  } else {
    assert_int_equal(f->c->rollback(f->cache_self, mark), 0);
    assert_int_equal(fake_audit(f), 0);
    assert_string_equal(f->text, before);
    t->refused += rc != LLS_RESERVE_OK;
  }
  free(before);
}

static void try_preempt(struct trace *t, struct fake_request *r)
{
  struct fake *f = &t->f;
  uint32_t mode = fake_between(f, LLS_PREEMPT_RECOMPUTE, LLS_PREEMPT_SWAP);
  if (t->runs[r->view.slot] == 0 && f->c->preempt(f->cache_self, &r->view, mode) == 0)
    t->left[r->view.slot] = true;
}

static void compute_all(struct trace *t)
{
  struct fake *f = &t->f;
  struct lls_block_table table;
  for (uint32_t i = 0; i < 2 * f->o.max_requests; i++) {
    struct fake_request *r = f->by_slot[i % f->o.max_requests];
    uint32_t tokens = t->runs[i % f->o.max_requests];
    if (r == NULL || tokens == 0)
      continue;
    uint32_t before = info_of(f, r).cached_tokens;
    assert_int_equal(f->c->table(f->cache_self, &r->view, &table), 0);
    if (i < f->o.max_requests) { /* all write before any of them reads */
      take_slots(t, r, before + tokens);
      fake_memory_write(&f->memory, &table, r->digests, before, before + tokens);
    } else { /* invariant 7 */
      fake_memory_check(&f->memory, &table, r->digests, before + tokens);
      f->c->computed(f->cache_self, &r->view, before + tokens);
      t->n_runs++;
    }
  }
}

static void random_step(struct trace *t)
{
  struct fake *f = &t->f;
  memset(t->runs, 0, sizeof t->runs);
  memset(t->left, 0, sizeof t->left);
  if (fake_alive(f) < f->o.max_requests && fake_between(f, 0, 2) == 0) {
    f->next.request_class = fake_between(f, LLS_CLASS_NONE, LLS_CLASS_BEST_EFFORT);
    submit(f, 0, fake_between(f, 1, 60), 1);
  }
  assert_int_equal(f->c->begin(f->cache_self), 0);
  for (uint32_t n = fake_between(f, 0, f->o.max_sequences); n > 0 && any(f) != NULL; n--)
    if (fake_between(f, 0, 19) == 0)
      try_preempt(t, any(f));
    else
      try_run(t, any(f));
  assert_int_equal(f->c->commit(f->cache_self), 0);
  carry_out(f);
  for (uint32_t i = 0; i < f->o.max_requests; i++)
    if (t->left[i] || t->runs[i] > 0) /* its table says where it is now */
      forget(t, f->by_slot[i]);
  compute_all(t);
  assert_int_equal(fake_audit(f), 0);
  check_places(t);
  for (uint32_t i = 0; i < f->o.max_requests; i++) {
    struct fake_request *r = f->by_slot[i];
    if (r != NULL && fake_between(f, 0, 30) == 0) {
      forget(t, r);
      fake_cancel(f, r);
    }
  }
}

static void open_trace(struct trace *t, uint64_t seed)
{
  struct fake dice = {.random_state = seed};
  struct fake_options o = defaults;
  static const char *const dropped[] = {"keep_host_copy", "off", "be_min_free_slots", "3",
                                        NULL};
  o.seed = seed;
  o.block_tokens = 1u << fake_between(&dice, 0, 5);
  uint32_t least = 64 / o.block_tokens + 1;
  o.device_units = 2 * fake_between(&dice, least, 2 * least) + seed % 2;
  o.host_units = fake_between(&dice, 0, 3) * fake_between(&dice, 0, 2 * least);
  o.max_requests = 12;
  o.max_sequences = 5;
  o.cache.parameters = seed % 3 == 0 ? dropped : NULL;
  assert_int_equal(fake_open(&t->f, &o), 0);
  t->owners = calloc(o.device_units * o.block_tokens, sizeof *t->owners);
}

/* 400 traces. Everything comes back at the end (invariant 9), and a rollback leaves the
 * state it goes back to (invariant 10). */
static void test_random_traces(void **state)
{
  (void)state;
  uint32_t runs = 0, out = 0, back = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 400; seed++) {
    struct trace t = {.n_runs = 0};
    open_trace(&t, seed);
    uint32_t all = free_units(&t.f), host = host_free(&t.f);
    for (uint32_t i = 0; i < 80; i++)
      random_step(&t);
    for (struct fake_request *r; (r = any(&t.f)) != NULL;)
      fake_cancel(&t.f, r);
    assert_int_equal(fake_audit(&t.f), 0);
    assert_int_equal(free_units(&t.f), all);
    assert_int_equal(host_free(&t.f), host);
    runs += t.n_runs, refused += t.refused;
    out += copied_out(&t.f), back += t.f.copies[LLS_COPY_HOST_TO_DEVICE];
    free(t.owners);
    fake_close(&t.f);
  }
  print_message("# %u runs, %u refused, %u copies out, %u back\n", runs, refused, out,
                back);
  assert_true(runs > 20000 && refused > 1000 && out > 5000 && back > 2000);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_example_3),
      cmocka_unit_test(test_example_4),
      cmocka_unit_test(test_copies_are_kept),
      cmocka_unit_test(test_nobody_in_the_step_is_displaced),
      cmocka_unit_test(test_only_who_may_displaces),
      cmocka_unit_test(test_full_host),
      cmocka_unit_test(test_no_host),
      cmocka_unit_test(test_off),
      cmocka_unit_test(test_swap),
      cmocka_unit_test(test_handed_over),
      cmocka_unit_test(test_other_managers),
      cmocka_unit_test(test_rollback_is_exact),
      cmocka_unit_test(test_random_traces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
