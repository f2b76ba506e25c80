/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs an engine that keeps block tables from step to step (core/engine/table_cache.c)
 * and one that does not through the same random steps: sequences begin, end, are
 * preempted, left out, reordered and prefilled in chunks; their blocks move and the old
 * ones are overwritten; their tables move in memory; in both forms of cache. Logits and
 * tokens are the same, bit for bit, on the CPU device and on the emulated CUDA device;
 * and errors in a table are found wherever they are.
 */
#include "t/drive.h"
#include "t/kernel/fixture.h"

#include "core/device/devices.h"
#include "core/engine/engine_internal.h"
#include "kernels/cpu/device.h"

#include <errno.h>

#define SEQUENCES  6
#define MOST       120 /* tokens of a sequence */
#define MAX_COPIES 64

extern const struct lls_device_module lls_device_module; /* the emulated one */

struct one {
  struct sequence s;
  int32_t tokens[MOST + 1];
  uint32_t n; /* known tokens; 0: the slot is free */
  struct lls_block_entry elsewhere[2][SEQUENCE_MAX_BLOCKS];
  struct lls_group_list list; /* as the engines get it */
  struct lls_block_table table;
};

struct run {
  struct reference *reference;
  struct lls_device *devices[2];
  struct lls_engine *engines[2]; /* [0] keeps tables, [1] does not */
  struct units units;
  struct one sequences[SEQUENCES];
  struct lls_copy copies[MAX_COPIES];
  uint32_t n_copies, block_tokens;
  bool hidden;
};

static bool once_in(uint32_t n)
{
  return random_bits() % n == 0;
}

static int create_cpu(const struct lls_device_options *options, struct lls_device **out,
                      struct lls_error *err)
{
  return lls_cpu_device_create(options, out, err);
}

typedef int (*create)(const struct lls_device_options *, struct lls_device **,
                      struct lls_error *);

static struct run *open_run(const char *model, create make_device)
{
  struct run *r = calloc(1, sizeof *r);
  struct drive_model m = {0};
  struct lls_worker_rank_options o;
  struct lls_error err = {0};
  const struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                        .cache_element = LLS_F32,
                                        .block_tokens = 4,
                                        .create_device = make_device};
  drive_prepare(&m, model, &options, &o);
  o.engine.max_sequences = o.device.max_sequences = SEQUENCES;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(make_device(&o.device, &r->devices[i], &err), 0);
    r->devices[i]->asynchronous = i == 0;
    if (lls_engine_create(&o.engine, &o.model, r->devices[i], &r->engines[i], &err) < 0)
      fail_msg("%s", err.text);
    assert_true((r->engines[i]->table_cache.arena != NULL) == (i == 0));
  }
  r->reference = m.reference;
  r->block_tokens = 4;
  r->hidden = lls_engine_why_no_hidden(r->engines[0]) == NULL;
  units_init(&r->units, DRIVE_DEVICE_UNITS,
             lls_form_units(lls_engine_pool_shape(r->engines[0]), LLS_FORM_KV));
  for (uint32_t i = 0; i < SEQUENCES; i++)
    sequence_init(&r->sequences[i].s);
  return r;
}

static void close_run(struct run *r)
{
  for (int i = 0; i < 2; i++) {
    lls_engine_destroy(r->engines[i]);
    r->devices[i]->ops->destroy(r->devices[i]);
  }
  reference_free(r->reference);
  free(r);
}

/* ---- what happens between steps ---------------------------------------------------- */

static int32_t any_token(const struct run *r)
{
  return (int32_t)(random_bits() % r->reference->vocab);
}

static void begin(struct run *r, struct one *q)
{
  q->n = random_between(1, MOST / 2);
  for (uint32_t i = 0; i < q->n; i++)
    q->tokens[i] = any_token(r);
  q->s.reversed = once_in(3);
  q->s.hidden = r->hidden && once_in(3);
}

static void copy(struct run *r, uint32_t source, uint32_t target, uint8_t form)
{
  assert_true(r->n_copies < MAX_COPIES);
  r->copies[r->n_copies++] = (struct lls_copy){
      .n_slots = (uint16_t)r->block_tokens,
      .source = source,
      .target = target,
      .source_form = form,
      .target_form = form,
  };
}

/* Moves a block; the old one's contents are overwritten, as by another sequence. */
static void move_block(struct run *r, struct one *q)
{
  struct lls_block_entry *list = q->s.hidden ? q->s.x : q->s.kv;
  uint32_t n = q->s.list.n_entries;
  if (n == 0 || r->units.n < 2)
    return;
  struct lls_block_entry *entry = &list[random_between(0, n - 1)];
  uint32_t old = entry->block;
  entry->block = r->units.free[--r->units.n];
  copy(r, old, entry->block, entry->form);
  copy(r, r->units.free[0], old, LLS_FORM_KV);
  r->units.free[r->units.n++] = old;
}

static void disturb(struct run *r)
{
  for (uint32_t i = 0; i < SEQUENCES; i++) {
    struct one *q = &r->sequences[i];
    if (q->n == 0 && once_in(4)) {
      begin(r, q);
    } else if (q->n > 0 && (q->n == MOST || once_in(40))) {
      sequence_release(&q->s, &r->units);
      q->n = 0;
    } else if (q->n > 0 && once_in(30)) { /* preempted, to be computed again */
      bool hidden = q->s.hidden;
      sequence_release(&q->s, &r->units);
      q->s.hidden = hidden;
    } else if (q->n > 0 && once_in(8)) {
      move_block(r, q);
    }
  }
}

/* ---- a step ------------------------------------------------------------------------ */

/* Makes the lists' last entries whole blocks, as managers do; sometimes moves the table
 * in memory. */
static void give_table(struct run *r, struct one *q)
{
  struct lls_block_entry *lists[2] = {q->s.kv, q->s.x};
  const uint32_t counts[2] = {q->s.n_kv, q->s.n_x};
  bool elsewhere = once_in(6), full = once_in(2);
  sequence_show(&q->s);
  q->list = q->s.list;
  q->table = (struct lls_block_table){.n_groups = 1, .lists = &q->list};
  for (int i = 0; i < 2; i++) {
    if (counts[i] > 0 && full)
      lists[i][counts[i] - 1].count = (uint16_t)r->block_tokens;
    if (elsewhere)
      memcpy(q->elsewhere[i], lists[i], counts[i] * sizeof **lists);
  }
  if (elsewhere) {
    q->list.entries = q->elsewhere[q->s.hidden];
    q->list.restored = q->elsewhere[1];
  }
}

static uint32_t make_batch(struct run *r, struct lls_engine_sequence *batch,
                           struct one **who)
{
  uint32_t n = 0, first = once_in(4) ? random_bits() % SEQUENCES : 0;
  bool backwards = once_in(8);
  for (uint32_t j = 0; j < SEQUENCES; j++) {
    uint32_t i = (first + (backwards ? SEQUENCES - j : j)) % SEQUENCES;
    struct one *q = &r->sequences[i];
    if (q->n == 0 || once_in(10))
      continue;
    uint32_t pending = q->n - q->s.cached, most = once_in(2) ? 9 : MOST;
    uint32_t now = pending < most ? pending : most;
    sequence_grow(&q->s, &r->units, q->s.cached + now, r->block_tokens);
    give_table(r, q);
    who[n] = q;
    batch[n] = (struct lls_engine_sequence){
        .tokens = q->tokens + q->s.cached,
        .n_tokens = now,
        .context = q->s.cached,
        .table = &q->table,
        .sampling = now == pending ? &drive_greedy : NULL,
        .all_logits = n % 2 == 0,
    };
    n++;
  }
  return n;
}

static void submit(struct lls_engine *e, const struct lls_engine_batch *batch,
                   struct lls_engine_result *result)
{
  struct lls_error err = {0};
  int rc = lls_engine_submit(e, batch, &err);
  if (rc == 0)
    rc = lls_engine_wait(e, result, &err);
  if (rc < 0)
    fail_msg("%s", err.text);
}

static void compare(struct run *r, const struct lls_engine_batch *batch,
                    const struct lls_engine_result *results, struct one **who)
{
  size_t row = r->reference->vocab * sizeof(float);
  for (uint32_t i = 0; i < batch->n_sequences; i++) {
    const struct lls_engine_sequence *s = &batch->sequences[i];
    struct one *q = who[i];
    if (s->all_logits)
      assert_memory_equal(lls_engine_logits(r->engines[0], i),
                          lls_engine_logits(r->engines[1], i), s->n_tokens * row);
    q->s.cached += s->n_tokens;
    if (s->sampling == NULL)
      continue;
    assert_int_equal(results[0].sampled[i]->token, results[1].sampled[i]->token);
    q->tokens[q->n++] = results[0].sampled[i]->token;
  }
}

static void step(struct run *r)
{
  struct lls_engine_sequence sequences[SEQUENCES];
  struct one *who[SEQUENCES];
  struct lls_engine_result results[2];
  r->n_copies = 0;
  disturb(r);
  struct lls_engine_batch batch = {.sequences = sequences, .copies = r->copies};
  batch.n_sequences = make_batch(r, sequences, who);
  batch.n_copies = r->n_copies;
  for (int i = 0; i < 2; i++)
    submit(r->engines[i], &batch, &results[i]);
  compare(r, &batch, results, who);
}

static void run_steps(const char *model, create make_device, uint32_t steps)
{
  struct run *r = open_run(model, make_device);
  for (uint32_t i = 0; i < steps; i++)
    step(r);
  close_run(r);
}

static void test_cpu(void **state)
{
  run_steps(*state, create_cpu, TAP_LOTS(500));
}

static void test_cuda(void **state)
{
  run_steps(*state, lls_device_module.create, TAP_LOTS(60));
}

/* ---- tables that are wrong --------------------------------------------------------- */

static void expect(struct run *r, struct one *q, int wanted)
{
  struct lls_error err = {0};
  struct lls_engine_result result;
  const struct lls_engine_sequence s = {.tokens = q->tokens + q->s.cached,
                                        .n_tokens = 1,
                                        .context = q->s.cached,
                                        .table = &q->s.table,
                                        .sampling = &drive_greedy};
  const struct lls_engine_batch batch = {.n_sequences = 1, .sequences = &s};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(lls_engine_submit(r->engines[i], &batch, &err), wanted);
    if (wanted == 0)
      assert_int_equal(lls_engine_wait(r->engines[i], &result, &err), 0);
  }
}

/* Errors in the compared part, in the last entry, and beyond it; after each the correct
 * table works again. */
static void test_refusals(void **state)
{
  struct run *r = open_run(*state, create_cpu);
  struct one *q = &r->sequences[0];
  q->n = MOST;
  for (uint32_t i = 0; i < MOST; i++)
    q->tokens[i] = any_token(r);
  for (q->s.cached = 0; q->s.cached < 40; q->s.cached++) {
    sequence_grow(&q->s, &r->units, q->s.cached + 1, r->block_tokens);
    expect(r, q, 0);
    for (uint32_t i = 0; i < q->s.list.n_entries; i++) {
      struct lls_block_entry right = q->s.kv[i];
      q->s.kv[i].block = DRIVE_DEVICE_UNITS;
      expect(r, q, -EINVAL);
      q->s.kv[i] = right;
      q->s.kv[i].first_token++;
      expect(r, q, -EINVAL);
      q->s.kv[i] = right;
      q->s.kv[i].form = LLS_FORM_INT8;
      expect(r, q, -ENOTSUP);
      q->s.kv[i] = right;
      if (i % 4 == 0)
        expect(r, q, 0);
    }
    q->s.list.n_entries--; /* one token is not covered */
    expect(r, q, -EINVAL);
    q->s.list.n_entries++;
  }
  close_run(r);
}

int main(void)
{
  static char llama[] = "llama", opt[] = "opt", neox[] = "neox";
  const struct CMUnitTest tests[] = {
      {"llama on the CPU", test_cpu, NULL, NULL, llama},
      {"opt on the CPU", test_cpu, NULL, NULL, opt},
      {"neox on the CPU", test_cpu, NULL, NULL, neox},
      {"llama on the emulated GPU", test_cuda, NULL, NULL, llama},
      {"opt on the emulated GPU", test_cuda, NULL, NULL, opt},
      {"refusals", test_refusals, NULL, NULL, llama},
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
