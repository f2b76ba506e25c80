/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random traces of the bidirectional cache: every token is followed through slots,
 * copies and restores, and after each step bidirectional.h's invariants hold (by their
 * numbers there).
 */
#include "t/plugin/transactions.h"

#include <string.h>

/* The owner of a slot of a block, by the tables of the requests that ran. */
struct owner {
  const struct lls_live *request; /* NULL: free */
  uint32_t token;
};

struct trace {
  struct bed bed;
  struct owner *owners; /* (blocks, slots of a block) */
  uint32_t runs[32];    /* tokens that each request computes in this step, by its slot */
  bool left[32];        /* taken off the device in this step */
  uint32_t n_runs, refused;
};

static bool best_effort(const struct lls_live *r)
{
  return r->view.request_class == LLS_CLASS_BEST_EFFORT;
}

static struct owner *owners_of(struct trace *t, uint32_t block)
{
  return &t->owners[(size_t)block * t->bed.o.block_tokens];
}

static void forget(struct trace *t, const struct lls_live *r)
{
  for (uint32_t i = 0; i < t->bed.o.device_units / 2 * t->bed.o.block_tokens; i++)
    if (t->owners[i].request == r)
      t->owners[i].request = NULL;
}

/* Invariant 6: a slot may pass only from a best-effort request to a real-time one, or
 * from a request that has just left. */
static void take_slot(struct trace *t, struct owner *slot, const struct lls_live *r,
                      uint32_t token)
{
  const struct lls_live *q = slot->request;
  if (q != NULL && q != r && !t->left[q->view.slot]) {
    assert_true(best_effort(q) && !best_effort(r));
    assert_int_equal(t->runs[q->view.slot], 0);
  }
  *slot = (struct owner){r, token};
}

static void take_slots(struct trace *t, const struct lls_live *r, uint32_t n)
{
  struct lls_block_table table;
  uint32_t most = t->bed.o.block_tokens;
  assert_int_equal(t->bed.c->table(t->bed.cache_self, &r->view, &table), 0);
  for (uint32_t i = 0; i < table.lists->n_entries; i++) {
    const struct lls_block_entry *e = &table.lists->entries[i];
    assert_int_equal(e->direction,
                     best_effort(r) ? LLS_RIGHT_TO_LEFT : LLS_LEFT_TO_RIGHT);
    for (uint32_t j = 0; j < e->count && e->first_token + j < n; j++) {
      uint32_t slot = best_effort(r) ? most - 1 - j : j;
      take_slot(t, &owners_of(t, e->block / 2)[slot], r, e->first_token + j);
    }
  }
}

/* Invariants 5 and 8: in a block real-time tokens lie from the left and best-effort
 * tokens from the right, each of one request, in order and without a gap. */
static void check_block(struct trace *t, uint32_t block)
{
  uint32_t n = t->bed.o.block_tokens;
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

/* The tokens that a request lacks on the device are those that `info` counts as
 * missing. */
static void check_places(struct trace *t)
{
  uint32_t blocks = t->bed.o.device_units / 2, resident[32] = {0};
  for (uint32_t b = 0; b < blocks; b++)
    check_block(t, b);
  for (uint32_t i = 0; i < blocks * t->bed.o.block_tokens; i++)
    if (t->owners[i].request != NULL)
      resident[t->owners[i].request->view.slot]++;
  for (uint32_t i = 0; i < t->bed.o.max_requests; i++)
    if (t->bed.by_slot[i] != NULL) {
      struct lls_cache_info info = info_of(&t->bed, t->bed.by_slot[i]);
      assert_int_equal(info.cached_tokens - info.missing_tokens, resident[i]);
    }
}

/* Reserves some tokens for a request, and now and then rolls back. */
static void try_run(struct trace *t, struct lls_live *r)
{
  struct bed *bed = &t->bed;
  uint32_t left = lls_request_length(&r->view) - info_of(bed, r).cached_tokens;
  if (left == 0 || t->runs[r->view.slot] > 0 || t->left[r->view.slot])
    return;
  uint32_t tokens = bed_between(bed, 1, left < 12 ? left : 12);
  uint32_t mark = bed->c->mark(bed->cache_self);
  bool displace = !best_effort(r) && bed_between(bed, 0, 9) > 0;
  bed_audit(bed);
  char *before = strdup(bed->text);
  int rc = bed->c->reserve(bed->cache_self, &r->view, tokens, LLS_FORM_NONE,
                           displace ? LLS_MAY_DISPLACE : 0);
  if (rc == LLS_RESERVE_OK && bed_between(bed, 0, 5) > 0) {
    t->runs[r->view.slot] = tokens;
  } else {
    assert_int_equal(bed->c->rollback(bed->cache_self, mark), 0);
    assert_int_equal(bed_audit(bed), 0);
    assert_string_equal(bed->text, before);
    t->refused += rc != LLS_RESERVE_OK;
  }
  free(before);
}

static void try_preempt(struct trace *t, struct lls_live *r)
{
  struct bed *bed = &t->bed;
  uint32_t mode = bed_between(bed, LLS_PREEMPT_RECOMPUTE, LLS_PREEMPT_SWAP);
  if (t->runs[r->view.slot] == 0 && bed->c->preempt(bed->cache_self, &r->view, mode) == 0)
    t->left[r->view.slot] = true;
}

static void compute_all(struct trace *t)
{
  struct bed *bed = &t->bed;
  struct lls_block_table table;
  for (uint32_t i = 0; i < 2 * bed->o.max_requests; i++) {
    struct lls_live *r = bed->by_slot[i % bed->o.max_requests];
    uint32_t tokens = t->runs[i % bed->o.max_requests];
    if (r == NULL || tokens == 0)
      continue;
    uint32_t before = r->view.cached_tokens = info_of(bed, r).cached_tokens;
    assert_int_equal(bed->c->table(bed->cache_self, &r->view, &table), 0);
    if (i < bed->o.max_requests) { /* all requests write before any reads */
      take_slots(t, r, before + tokens);
      shadow_write(bed_shadow(bed), table.lists, &r->view, before, before + tokens);
    } else { /* invariant 7 */
      check_slots(bed, r, before + tokens);
      bed->c->computed(bed->cache_self, &r->view, before + tokens);
      r->view.cached_tokens = before + tokens;
      t->n_runs++;
    }
  }
}

static void random_step(struct trace *t)
{
  struct bed *bed = &t->bed;
  memset(t->runs, 0, sizeof t->runs);
  memset(t->left, 0, sizeof t->left);
  if (bed_alive(bed) < bed->o.max_requests && bed_between(bed, 0, 2) == 0) {
    bed->next.request_class = bed_between(bed, LLS_CLASS_NONE, LLS_CLASS_BEST_EFFORT);
    submit(bed, 0, bed_between(bed, 1, 60), 1);
  }
  assert_int_equal(bed->c->begin(bed->cache_self), 0);
  for (uint32_t n = bed_between(bed, 0, bed->o.max_sequences); n > 0 && any(bed) != NULL;
       n--)
    if (bed_between(bed, 0, 19) == 0)
      try_preempt(t, any(bed));
    else
      try_run(t, any(bed));
  assert_int_equal(bed->c->commit(bed->cache_self), 0);
  carry_out(bed);
  for (uint32_t i = 0; i < bed->o.max_requests; i++)
    if (t->left[i] || t->runs[i] > 0) /* its table now shows its place */
      forget(t, bed->by_slot[i]);
  compute_all(t);
  assert_int_equal(bed_audit(bed), 0);
  check_places(t);
  for (uint32_t i = 0; i < bed->o.max_requests; i++) {
    struct lls_live *r = bed->by_slot[i];
    if (r != NULL && bed_between(bed, 0, 30) == 0) {
      forget(t, r);
      bed_cancel(bed, r);
    }
  }
}

static void open_trace(struct trace *t, uint64_t seed)
{
  struct dice d = {seed};
  struct bed_options o = {
      .scheduler = {"fcfs", POLICY_PARAMETERS("watermark", "0")},
      .cache = {"bidirectional", NULL},
      .max_tokens = 1024,
      .max_sequences = 5,
      .max_context = 256,
      .max_requests = 12,
      .audit_every = 1,
      .seed = seed,
  };
  static const char *const dropped[] = {"keep_host_copy", "off", "be_min_free_slots", "3",
                                        NULL};
  o.block_tokens = 1u << dice(&d, 0, 5);
  uint32_t least = 64 / o.block_tokens + 1;
  o.device_units = 2 * dice(&d, least, 2 * least) + seed % 2;
  o.host_units = dice(&d, 0, 3) * dice(&d, 0, 2 * least);
  o.cache.parameters = seed % 3 == 0 ? dropped : NULL;
  assert_int_equal(bed_open(&t->bed, &o), 0);
  t->owners = calloc(o.device_units * o.block_tokens, sizeof *t->owners);
}

/* 400 traces. All memory is released at the end (invariant 9), and a rollback restores
 * the state at the mark (invariant 10). */
static void test_random_traces(void **state)
{
  (void)state;
  uint32_t runs = 0, out = 0, back = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 400; seed++) {
    struct trace t = {.n_runs = 0};
    open_trace(&t, seed);
    uint32_t all = free_units(&t.bed), host = host_free(&t.bed);
    for (uint32_t i = 0; i < 80; i++)
      random_step(&t);
    for (struct lls_live *r; (r = any(&t.bed)) != NULL;)
      bed_cancel(&t.bed, r);
    assert_int_equal(bed_audit(&t.bed), 0);
    assert_int_equal(free_units(&t.bed), all);
    assert_int_equal(host_free(&t.bed), host);
    runs += t.n_runs, refused += t.refused;
    out += t.bed.copies[LLS_COPY_DEVICE_TO_HOST],
        back += t.bed.copies[LLS_COPY_HOST_TO_DEVICE];
    free(t.owners);
    bed_close(&t.bed);
  }
  print_message("# %u runs, %u refused, %u copies out, %u back\n", runs, refused, out,
                back);
  assert_true(runs > 20000 && refused > 1000 && out > 5000 && back > 2000);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_traces)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
