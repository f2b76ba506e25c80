/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the CUDA device divides attention among blocks (kernels/cuda/plan.c,
 * plan_pieces.c). The results of attention do not depend on it, so this test checks
 * what makes it fast: decodes are cut into lanes of equally many tiles, as many lanes
 * as blocks run at once; prompts begin with the rows that see most tokens.
 */
#include "kernels/cuda/ops.h"
#include "t/kernel/pair.h"

#define HEADS    8
#define KV_HEADS 2
#define MOST     8 /* sequences */

/* A step of sequences, and the plan of its attention on the host. */
struct planned {
  struct lls_device *device;
  struct lls_pool *pool;
  struct block_lists blocks;
  struct lls_step_sequence sequences[MOST];
  uint32_t sequence[PAIR_ROWS];
  int32_t zeros[PAIR_ROWS];
  struct lls_device_step step;
  const struct lls_cuda_plan *plan;
};

static void add(struct planned *p, uint32_t context, uint32_t n_rows)
{
  uint32_t i = p->step.n_sequences++;
  struct lls_block_entry *list;
  uint32_t n = block_list(&p->blocks, context + n_rows, true, &list);
  p->sequences[i] = (struct lls_step_sequence){.kv = {.entries = list, .n = n},
                                               .first_row = p->step.n_rows,
                                               .n_rows = n_rows,
                                               .context = context};
  for (uint32_t row = 0; row < n_rows; row++)
    p->sequence[p->step.n_rows++] = i;
}

static const void *on_host(const struct planned *p, const void *device)
{
  const struct lls_cuda_inputs *in = &lls_cuda(p->device)->inputs;
  return in->host[in->turn] + ((const char *)device - in->device);
}

static void open_planned(struct planned *p)
{
  const struct lls_device_options options = pair_options(LLS_BF16, 4096);
  const struct lls_pool_shape shape = {.layers = 1,
                                       .kv_heads = KV_HEADS,
                                       .head_dim = 128,
                                       .block_tokens = 16,
                                       .element = LLS_BF16,
                                       .device_units = 1024};
  struct lls_error err = {""};
  if (lls_device_module.create(&options, &p->device, &err) < 0 ||
      p->device->ops->pool_create(p->device, &shape, &p->pool, &err) < 0)
    fail_msg("%s", err.text);
  block_lists_init(&p->blocks, 512, 16, 2);
}

static void make_plan(struct planned *p)
{
  p->step.tokens = p->step.positions = p->zeros;
  p->step.sequence = p->sequence;
  p->step.sequences = p->sequences;
  assert_int_equal(p->device->ops->step_begin(p->device, p->pool, &p->step), 0);
  struct lls_cuda_attention a = {.n_rows = lls_cuda_padded(p->step.n_rows),
                                 .heads = HEADS,
                                 .kv_heads = KV_HEADS,
                                 .head_dim = 128};
  lls_cuda_plan_attention(lls_cuda(p->device), &a);
  p->plan = on_host(p, lls_cuda(p->device)->plan_at + a.plan);
}

static void close_planned(struct planned *p)
{
  pair_end(p->device);
  p->device->ops->pool_destroy(p->device, p->pool);
  p->device->ops->destroy(p->device);
  for (uint32_t i = 0; i < p->step.n_sequences; i++)
    free((void *)p->sequences[i].kv.entries);
}

static uint32_t tiles_of(uint32_t tokens)
{
  return (tokens + LLS_CUDA_TILE - 1) / LLS_CUDA_TILE;
}

/* ---- decodes ----------------------------------------------------------------------- */

static void check_lanes(const struct planned *p, uint32_t tiles)
{
  const struct lls_cuda_piece *pieces = on_host(p, p->plan->pieces);
  const uint32_t *lanes = on_host(p, p->plan->lanes);
  uint32_t places = p->pool->attention_slots[0] / KV_HEADS;
  uint32_t wanted = tiles < places ? tiles : places;
  assert_int_equal(p->plan->n_lanes, wanted);
  for (uint32_t lane = 0; lane < wanted; lane++) {
    uint32_t n = 0;
    for (uint32_t i = lanes[lane]; i < lanes[lane + 1]; i++)
      n += tiles_of(pieces[i].end - pieces[i].begin);
    assert_true(n == tiles / wanted || n == tiles / wanted + (tiles % wanted > 0));
  }
}

/* The pieces cover each sequence's tokens once, in order; the first piece has the
 * sinks. */
static void check_pieces(const struct planned *p)
{
  const struct lls_cuda_piece *piece = on_host(p, p->plan->pieces);
  const uint32_t *lanes = on_host(p, p->plan->lanes);
  const struct lls_cuda_piece *past = piece + lanes[p->plan->n_lanes];
  for (uint32_t i = 0; i < p->step.n_sequences; i++) {
    const struct lls_step_sequence *s = &p->sequences[i];
    uint32_t end = s->context + s->n_rows, n = 0;
    for (uint32_t token = 0; token < end; token = piece[n++].end) {
      assert_true(piece + n < past);
      assert_int_equal(piece[n].row, s->first_row);
      assert_int_equal(piece[n].begin, token);
      assert_int_equal(piece[n].sinks, token == 0);
    }
    assert_int_equal(piece[n - 1].end, end);
    for (uint32_t k = 0; k < n; k++)
      if (n == 1)
        assert_true(piece[k].part == LLS_CUDA_NO_PART);
      else
        assert_true(piece[k].n_parts == n && piece[k].part == piece[0].part + k);
    piece += n;
  }
  assert_true(piece == past);
}

static void test_decodes(void **state)
{
  static const uint32_t contexts[][MOST] = {
      {5, 900, 70, 63, 0, 128, 333, 64}, {2000}, {3, 7}, {640, 640, 640}};
  (void)state;
  for (size_t k = 0; k < sizeof contexts / sizeof *contexts; k++) {
    static struct planned p;
    uint32_t tiles = 0;
    p = (struct planned){.device = NULL};
    open_planned(&p);
    for (uint32_t i = 0; i < MOST && (i == 0 || k == 0 || contexts[k][i] > 0); i++) {
      add(&p, contexts[k][i], 1);
      tiles += tiles_of(contexts[k][i] + 1);
    }
    make_plan(&p);
    check_lanes(&p, tiles);
    check_pieces(&p);
    assert_int_equal(p.plan->n_large, 0);
    close_planned(&p);
  }
}

/* ---- prompts ----------------------------------------------------------------------- */

static void test_prompts(void **state)
{
  static struct planned p;
  (void)state;
  p = (struct planned){.device = NULL};
  open_planned(&p);
  add(&p, 300, 100);
  add(&p, 0, 131);
  make_plan(&p);
  const struct lls_cuda_item *items = on_host(&p, p.plan->large);
  uint32_t rows[2] = {0, 0}, large_rows = LLS_CUDA_LARGE / (HEADS / KV_HEADS);
  assert_int_equal(p.plan->n_lanes, 0);
  for (uint32_t i = 0; i < p.plan->n_large; i++) {
    const struct lls_cuda_item *item = &items[i];
    bool next = i > 0 && item->sequence == items[i - 1].sequence;
    assert_true(item->n_rows <= large_rows && item->end > item->begin);
    if (next && item->first != items[i - 1].first) /* the longest come first */
      assert_true(item->first < items[i - 1].first);
    if (!next || item->first != items[i - 1].first)
      rows[item->sequence] += item->n_rows;
    if (item->part == LLS_CUDA_NO_PART)
      assert_int_equal(item->end,
                       p.sequences[item->sequence].context + item->first + item->n_rows);
  }
  assert_int_equal(rows[0], 100);
  assert_int_equal(rows[1], 131);
  close_planned(&p);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_decodes),
      cmocka_unit_test(test_prompts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
