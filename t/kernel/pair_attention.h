/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of attention for both devices of a pair: writes contexts to the cache, turns
 * some full blocks into int8 on request, and lets all rows attend at once.
 */
#ifndef LLS_KERNEL_PAIR_ATTENTION_H
#define LLS_KERNEL_PAIR_ATTENTION_H

#include "t/kernel/pair.h"

unsigned simt_graph_launches(void);

#define PAIR_LAYERS    2
#define PAIR_LAYER     1
#define PAIR_SEQUENCES 8
#ifndef PAIR_COLUMNS
#define PAIR_COLUMNS 8192
#endif

struct pair_shape {
  uint32_t kv_heads, group, head_dim, block_tokens, window, rotary;
  enum lls_dtype element;
  float soft_cap;
  bool sinks;
  bool chunked;       /* the window is a size of chunks */
  bool slopes;        /* ALiBi */
  bool queries_alone; /* rows that attend have no k and v */
  uint32_t rank;      /* of a latent, which is K's first part and V; 0: K and V differ */
  uint32_t turns;     /* number of different windows that alternate */
  bool int8;          /* about every other full block of the contexts is int8 */
};

struct pair_sequence {
  uint32_t context, n_rows;
  struct lls_step_list written, read; /* read: equals written, except for int8 blocks */
  struct lls_block_entry *lists[2];
  float *qkv; /* (context + n_rows, columns) */
};

struct pair_batch {
  const struct pair *p;
  struct pair_shape shape;
  struct pair_heads heads;
  struct lls_pool_shape pool;
  struct block_lists blocks;
  struct pair_sequence sequences[PAIR_SEQUENCES];
  uint32_t n_sequences;
  struct lls_copy copies[1024]; /* copies that quantise blocks */
  uint32_t n_copies;
};

/* ---- making a batch ---------------------------------------------------------------- */

static inline struct pair_batch *pair_batch_open(const struct pair *p,
                                                 const struct pair_shape *shape)
{
  struct pair_batch *b = calloc(1, sizeof *b);
  b->p = p;
  b->shape = *shape;
  pair_heads_init(&b->heads, shape->kv_heads * shape->group, shape->kv_heads,
                  shape->head_dim, shape->rotary);
  b->heads.attention.window = shape->window;
  b->heads.attention.chunked = shape->chunked;
  if (shape->rank > 0) {
    b->heads.attention.latent = true;
    b->heads.rope.first = shape->rank;
    b->heads.columns -= shape->kv_heads * shape->head_dim;
  }
  b->heads.attention.soft_cap = shape->soft_cap;
  b->pool = (struct lls_pool_shape){
      .layers = PAIR_LAYERS,
      .kv_heads = shape->kv_heads,
      .head_dim = shape->head_dim,
      .block_tokens = shape->block_tokens,
      .element = shape->element,
      .int8 = shape->int8 ? LLS_INT8_ALL : LLS_INT8_OFF,
      .latent = shape->rank > 0,
  };
  uint32_t units = most_block_units(&b->pool);
  b->pool.device_units = 1024 * units;
  block_lists_init(&b->blocks, 1024, shape->block_tokens, units);
  return b;
}

/* Removes the sequences, so that others may use the same blocks. */
static inline void pair_batch_clear(struct pair_batch *b)
{
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    for (int j = 0; j < 2; j++)
      free(b->sequences[i].lists[j]);
    free(b->sequences[i].qkv);
  }
  memset(b->sequences, 0, sizeof b->sequences);
  b->n_sequences = b->n_copies = 0;
}

static inline void pair_batch_close(struct pair_batch *b)
{
  pair_batch_clear(b);
  free(b);
}

/* Returns a copy of a list in which some full blocks of the context are int8. */
static inline struct lls_block_entry *pair_quantised(struct pair_batch *b,
                                                     const struct lls_block_entry *list,
                                                     uint32_t n, uint32_t context)
{
  struct lls_block_entry *out = malloc((n + 1) * sizeof *out);
  memcpy(out, list, n * sizeof *out);
  for (struct lls_block_entry *e = out; b->shape.int8 && e < out + n; e++) {
    if (e->count != b->shape.block_tokens || e->first_token + e->count > context ||
        random_bits() % 2 == 0)
      continue;
    assert_true(b->n_copies < 1024);
    struct lls_copy *c = &b->copies[b->n_copies++];
    *c = (struct lls_copy){
        .n_slots = e->count,
        .source = e->block,
        .target = block_lists_take(&b->blocks),
        .target_form = LLS_FORM_INT8,
    };
    e->block = c->target;
    e->form = LLS_FORM_INT8;
  }
  return out;
}

/* Removes entries that no row sees from the lists that are read, and fills their blocks
 * with NaN. */
static inline void pair_give_back(const struct pair_batch *b, struct pair_sequence *s)
{
  uint32_t widest = b->shape.window + 5 * b->shape.turns;
  uint32_t first = give_back(&s->read, oldest_seen(s->context, widest));
  uint32_t hd = b->shape.head_dim;
  float *k = s->qkv + (size_t)b->heads.attention.heads * hd;
  size_t width = (size_t)b->shape.kv_heads * hd;
  poison(k, b->heads.columns, 2 * width, first);
}

static inline void pair_batch_add(struct pair_batch *b, uint32_t context, uint32_t n_rows,
                                  bool tidy)
{
  struct pair_sequence *s = &b->sequences[b->n_sequences++];
  uint32_t n = context + n_rows;
  s->context = context;
  s->n_rows = n_rows;
  s->qkv = pair_random(b->p, (size_t)n * b->heads.columns, random_float);
  s->written.n = s->read.n = block_list(&b->blocks, n, tidy, &s->lists[0]);
  s->written.entries = s->lists[0];
  s->read.entries = s->lists[1] = pair_quantised(b, s->lists[0], s->read.n, context);
  if (b->shape.window > 0 && !b->shape.chunked)
    pair_give_back(b, s);
}

/* ---- running it -------------------------------------------------------------------- */

/* The device, pool and buffers for batches of a shape. */
struct pair_place {
  struct lls_device *device;
  struct lls_pool *pool;
  void *in, *to; /* (PAIR_ROWS) of q, k and v, and of results */
  float *sinks;  /* numbers of each head; NULL: none */
};

static inline struct pair_place pair_place_open(const struct pair_batch *b,
                                                struct lls_device *d)
{
  struct pair_place place = {
      .device = d,
      .in = pair_buffer(d, PAIR_ROWS, b->heads.columns),
      .to = pair_buffer(d, PAIR_ROWS, b->heads.out_columns),
  };
  float numbers[128];
  bool numbered = b->shape.sinks || b->shape.slopes;
  for (uint32_t i = 0; i < b->heads.attention.heads && numbered; i++)
    numbers[i] = b->shape.slopes ? exp2f(-(float)(i + 1)) : (float)i - 1;
  const struct lls_tensor_view view = view_of(numbers, 1, b->heads.attention.heads);
  if (numbered)
    assert_int_equal(d->ops->vector_create(d, &view, &place.sinks, NULL), 0);
  assert_int_equal(d->ops->pool_create(d, &b->pool, &place.pool, NULL), 0);
  return place;
}

static inline void pair_place_close(const struct pair_place *place)
{
  struct lls_device *d = place->device;
  d->ops->pool_destroy(d, place->pool);
  pair_release(d, place->in);
  pair_release(d, place->to);
  if (place->sinks != NULL)
    pair_release(d, place->sinks);
}

/* Begins another step, whose rows are the queries alone of one whose k and v are cached,
 * as those of a layer that attends to what an earlier one cached. */
static inline void pair_batch_queries(const struct pair_batch *b,
                                      const struct pair_place *place,
                                      const struct pair_step *s,
                                      struct lls_attention_shape *shape)
{
  struct lls_device *d = place->device;
  uint32_t columns = b->heads.out_columns, rows = s->step.n_rows;
  float *queries = malloc((size_t)rows * columns * sizeof *queries);
  for (uint32_t i = 0; i < rows; i++)
    memcpy(queries + (size_t)i * columns, s->rows + (size_t)i * b->heads.columns,
           columns * sizeof *queries);
  shape->queries_alone = true;
  pair_end(d);
  pair_fill(d, queries, rows, columns, place->in);
  assert_int_equal(d->ops->step_begin(d, place->pool, &s->step), 0);
  if (b->shape.rotary > 0)
    d->ops->rope(d, shape, &b->heads.rope, place->in);
  free(queries);
}

/* One step; out (rows, out_columns) or NULL. */
static inline void pair_batch_step(const struct pair_batch *b,
                                   const struct pair_place *place,
                                   const struct pair_step *s, float *out)
{
  struct lls_device *d = place->device;
  struct lls_attention_shape shape = b->heads.attention;
  const struct lls_attention_shape *a = &shape;
  void *in = place->in, *to = place->to;
  uint32_t rows = s->step.n_rows;
  shape.sinks = b->shape.sinks ? place->sinks : NULL;
  shape.slopes = b->shape.slopes ? place->sinks : NULL;
  pair_fill(d, s->rows, rows, b->heads.columns, in);
  assert_int_equal(d->ops->step_begin(d, place->pool, &s->step), 0);
  if (b->shape.rotary > 0)
    d->ops->rope(d, a, &b->heads.rope, in);
  d->ops->cache_write(d, a, PAIR_LAYER, in);
  if (out != NULL) {
    for (uint32_t other = 0; other < b->shape.turns; other++) {
      struct lls_attention_shape wider = shape; /* another layer's window */
      wider.window = shape.window + 5 * (other + 1);
      d->ops->attention(d, &wider, PAIR_LAYER, in, to);
      d->ops->attention(d, a, PAIR_LAYER, in, to);
    }
    if (b->shape.queries_alone)
      pair_batch_queries(b, place, s, &shape);
    d->ops->attention(d, a, PAIR_LAYER, in, to);
    pair_get(d, to, (size_t)rows * b->heads.out_columns, out);
  }
  pair_end(d);
}

static inline void pair_batch_context(const struct pair_batch *b,
                                      const struct pair_place *place,
                                      const struct pair_sequence *s)
{
  for (uint32_t token = 0, n; token < s->context; token += n) {
    struct pair_step step;
    n = s->context - token < PAIR_ROWS ? s->context - token : PAIR_ROWS;
    pair_step_open(&step, b->heads.columns);
    pair_step_add(&step, &s->written, token, n,
                  s->qkv + (size_t)token * b->heads.columns);
    pair_batch_step(b, place, &step, NULL);
    pair_step_close(&step);
  }
}

/* Fills the pool with the contexts and lets all rows attend; returns the number of
 * rows. */
static inline uint32_t pair_batch_run(const struct pair_batch *b,
                                      const struct pair_place *place, float *out)
{
  struct lls_device *d = place->device;
  struct pair_step step;
  pair_step_open(&step, b->heads.columns);
  for (uint32_t i = 0; i < b->n_sequences; i++) {
    const struct pair_sequence *s = &b->sequences[i];
    pair_batch_context(b, place, s);
    pair_step_add(&step, &s->read, s->context, s->n_rows,
                  s->qkv + (size_t)s->context * b->heads.columns);
  }
  assert_int_equal(d->ops->pool_copy(d, place->pool, b->copies, b->n_copies), 0);
  pair_batch_step(b, place, &step, out);
  pair_step_close(&step);
  return step.step.n_rows;
}

/* Tensor cores round weights and int8 values to bf16, by 2^-9 of each: the result's
 * error is this part of the largest value, in addition to its own rounding. */
static inline void pair_batch_compare(const struct pair_batch *b,
                                      const struct pair_place *cpu,
                                      const struct pair_place *cuda)
{
  size_t most = PAIR_ROWS * (size_t)b->heads.out_columns;
  float *wanted = malloc(most * sizeof *wanted), *got = malloc(most * sizeof *got);
  uint32_t rows = pair_batch_run(b, cpu, wanted);
  pair_batch_run(b, cuda, got);
  bool bf16 = b->p->numbers == LLS_BF16 || b->shape.element == LLS_BF16;
  uint32_t width = b->shape.rank > 0 ? b->shape.rank : b->shape.head_dim;
  for (size_t i = 0; i < (size_t)rows * b->heads.attention.heads; i++)
    pair_compare(b->p, "attention", got + i * b->shape.head_dim,
                 wanted + i * b->shape.head_dim, width, pair_epsilon(b->p),
                 bf16 ? 0.006 : 1e-5);
  free(wanted);
  free(got);
}

static inline void pair_batch_check(const struct pair_batch *b)
{
  struct pair_place cpu = pair_place_open(b, b->p->cpu);
  struct pair_place cuda = pair_place_open(b, b->p->cuda);
  pair_batch_compare(b, &cpu, &cuda);
  pair_place_close(&cpu);
  pair_place_close(&cuda);
}

/* Decodes, whole prompts and a chunk, of irregular lengths, over ordered and unordered
 * lists. */
static inline void pair_batch_mixed(const struct pair *p, const struct pair_shape *shape)
{
  struct pair_batch *b = pair_batch_open(p, shape);
  pair_batch_add(b, random_between(0, 70), 1, true);
  pair_batch_add(b, random_between(60, 130), 1, false);
  pair_batch_add(b, 0, random_between(2, 40), true);
  pair_batch_add(b, random_between(1, 100), random_between(2, 20), false);
  pair_batch_add(b, 0, 1, false);
  pair_batch_check(b);
  pair_batch_close(b);
}

/*
 * Repeats a decode in the same place: it is first run, then captured, then launched as
 * a graph, with new tables, tokens and lengths each time. Contexts become long enough
 * to be split only when the graph exists.
 */
static inline void pair_decode_repeatedly(const struct pair *p,
                                          const struct pair_shape *shape)
{
  static const uint32_t lengths[] = {200, 90, 900, 204, 1300};
  struct pair_batch *b = pair_batch_open(p, shape);
  struct pair_place cpu = pair_place_open(b, p->cpu), cuda = pair_place_open(b, p->cuda);
  unsigned before = simt_graph_launches();
  for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
    block_lists_init(&b->blocks, b->blocks.n, shape->block_tokens, b->blocks.block_units);
    for (uint32_t i = 0; i < 3; i++)
      pair_batch_add(b, lengths[n] / (i + 1), 1, i > 0);
    pair_batch_compare(b, &cpu, &cuda);
    pair_batch_clear(b);
  }
  if (!p->on_gpu) /* one run, one capture with its launch, then launches */
    assert_true(simt_graph_launches() - before >= sizeof lengths / sizeof *lengths - 1);
  pair_batch_close(b);
  pair_place_close(&cpu);
  pair_place_close(&cuda);
}

/* Runs a test for each available pair of devices. */
#define PAIR_TEST(name)                                                                  \
  static void test_##name(void **state)                                                  \
  {                                                                                      \
    (void)state;                                                                         \
    each_pair(LLS_F32, PAIR_COLUMNS, name);                                              \
    each_pair(LLS_BF16, PAIR_COLUMNS, name);                                             \
  }

#endif
