/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single operations beside the GPU's limits: attention, restoring K and V from hidden
 * states, block copies. Calls of a round go through the layers of a pool, so that no call
 * finds the data of the previous one in the GPU's cache.
 */
#include "bench/gpu.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS       GPU_ROUNDS
#define BLOCK_TOKENS 16
#define MAX_COLUMNS  16384
#define MAX_LAYERS   8

static const struct lls_device_step nothing;

static struct lls_pool *make_pool(struct lls_device *d, const struct lls_pool_shape *s)
{
  struct lls_pool *pool;
  struct lls_error err = {""};
  int rc = d->ops->pool_create(d, s, &pool, &err);
  if (rc < 0)
    gpu_die("a pool", &err, rc);
  return pool;
}

/* ---- limits ------------------------------------------------------------------- */

/* Returns the seconds of n copies, the median over rounds. */
static double time_copies(struct lls_device *d, struct lls_pool *pool,
                          const struct lls_copy *copies, size_t n)
{
  double times[ROUNDS];
  const struct gpu_call wait = {.device = d, .pool = pool, .step = &nothing};
  for (int i = -1; i < ROUNDS; i++) {
    double start = bench_seconds();
    if (d->ops->pool_copy(d, pool, copies, n) < 0)
      gpu_die("a copy", NULL, -EINVAL);
    gpu_round(&wait);
    if (i >= 0)
      times[i] = bench_seconds() - start;
  }
  return bench_median(times, ROUNDS);
}

static void measure_copies(struct gpu_bench *b, struct lls_device *d)
{
  enum { COPIES = 8 };
  static const struct lls_pool_shape shape = {.layers = 1,
                                              .kv_heads = 1024,
                                              .head_dim = 128,
                                              .block_tokens = 1024,
                                              .element = LLS_BF16,
                                              .device_units = 2,
                                              .host_units = 1};
  double bytes = COPIES * (double)lls_unit_bytes(&shape), rate[3];
  struct lls_pool *pool = make_pool(d, &shape);
  struct lls_copy copies[COPIES];
  for (uint8_t kind = 0; kind < 3; kind++) {
    for (int i = 0; i < COPIES; i++)
      copies[i] = (struct lls_copy){.source_tier = kind == LLS_COPY_HOST_TO_DEVICE,
                                    .target_tier = kind == LLS_COPY_DEVICE_TO_HOST,
                                    .source_form = LLS_FORM_HIDDEN, /* one unit */
                                    .target_form = LLS_FORM_HIDDEN,
                                    .n_slots = 1024};
    for (int i = 0; kind == LLS_COPY_DEVICE_TO_DEVICE && i < COPIES; i++)
      copies[i].target = 1;
    rate[kind] = bytes / time_copies(d, pool, copies, COPIES);
  }
  b->limits.to_host = rate[LLS_COPY_DEVICE_TO_HOST];
  b->limits.to_device = rate[LLS_COPY_HOST_TO_DEVICE];
  b->limits.copy = 2 * rate[LLS_COPY_DEVICE_TO_DEVICE];
  d->ops->pool_destroy(d, pool);
}

/* Measures the matrix peak as the best over some numbers of rows. GPUs differ in which
 * number is best: an H200 is slower at 8192 rows than at 512. */
static void measure_matrix(struct gpu_bench *b, struct lls_device *d)
{
  enum { N = 8192 };
  static const uint32_t rows[] = {512, 2048, 8192};
  const struct lls_tensor_view view = {
      .dtype = LLS_BF16, .rows = N, .columns = N, .row_stride = N, .seed = 1};
  struct lls_weight *w;
  struct lls_error err = {""};
  int rc = d->ops->weight_create(d, &view, NULL, 1, LLS_WEIGHTS_BF16, &w, &err);
  if (rc < 0)
    gpu_die("a weight", &err, rc);
  struct gpu_call c = {.device = d,
                       .step = &nothing,
                       .run = gpu_run_linear,
                       .layers = 1,
                       .weights = &w,
                       .x = gpu_random_rows(d, N, N),
                       .y = gpu_random_rows(d, N, N)};
  for (size_t i = 0; i < 3 * sizeof rows / sizeof *rows;
       i++) { /* the GPU's clock changes, so each size is measured several times */
    c.n_rows = rows[i % (sizeof rows / sizeof *rows)];
    c.calls = 4 * N / c.n_rows;
    double rate = 2.0 * N * N * c.n_rows / gpu_time(&c);
    b->limits.matrix = rate > b->limits.matrix ? rate : b->limits.matrix;
  }
  d->ops->weight_destroy(d, w);
  d->ops->release(d, LLS_MEMORY_DEVICE, c.x);
  d->ops->release(d, LLS_MEMORY_DEVICE, c.y);
}

void gpu_measure_limits(struct gpu_bench *b)
{
  struct lls_device *d = gpu_open(GPU_MAX_ROWS, MAX_COLUMNS, 1);
  char text[256];
  d->ops->describe(d, text, sizeof text);
  printf("%s\n", text);
  measure_copies(b, d);
  measure_matrix(b, d);
  d->ops->destroy(d);
}

/* ---- attention ---------------------------------------------------------------- */

struct load {
  uint32_t heads, kv_heads, n_sequences, context, n_rows; /* rows of each sequence */
  bool int8; /* all blocks which are full before the step are int8 */
};

/* Sequences whose blocks are in random order. */
struct batch {
  struct lls_pool_shape pool;
  struct lls_block_entry *entries;
  struct lls_step_sequence *sequences;
  uint32_t *row_sequence;
  int32_t *positions;
  struct lls_device_step step;
};

static void *array(size_t n, size_t size)
{
  void *data = calloc(n + 1, size);
  if (data == NULL)
    gpu_die("a batch", NULL, -ENOMEM);
  return data;
}

static void lay_out(struct batch *b, const struct load *load, bool hidden)
{
  uint32_t tokens = load->context + load->n_rows, n = load->n_sequences;
  uint32_t blocks = (tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS, lists = hidden ? 2 : 1,
           total = lists * n * blocks;
  uint32_t units = lls_form_units(&b->pool, LLS_FORM_KV);
  b->entries = array(total, sizeof *b->entries);
  b->sequences = array(n, sizeof *b->sequences);
  b->row_sequence = array((size_t)n * load->n_rows, sizeof *b->row_sequence);
  b->positions = array((size_t)n * load->n_rows, sizeof *b->positions);
  uint32_t *order = array(total, sizeof *order);
  for (uint32_t i = 0; i < total; i++) {
    uint32_t j = (uint32_t)rand() % (i + 1);
    order[i] = order[j];
    order[j] = i;
  }
  for (uint32_t i = 0; i < total; i++)
    b->entries[i] = (struct lls_block_entry){.block = order[i] * units,
                                             .first_token = i % blocks * BLOCK_TOKENS,
                                             .count = BLOCK_TOKENS};
  free(order);
  for (uint32_t i = 0; i < n; i++) {
    struct lls_block_entry *first = b->entries + (size_t)lists * i * blocks;
    b->sequences[i] = (struct lls_step_sequence){.kv = {.entries = first, .n = blocks},
                                                 .first_row = i * load->n_rows,
                                                 .n_rows = load->n_rows,
                                                 .context = load->context};
    if (hidden)
      b->sequences[i].hidden =
          (struct lls_step_list){.entries = first + blocks, .n = blocks};
    for (uint32_t r = 0; r < load->n_rows; r++) {
      b->row_sequence[i * load->n_rows + r] = i;
      b->positions[i * load->n_rows + r] = (int32_t)(load->context + r);
    }
  }
  b->pool.device_units = total * units;
  b->step = (struct lls_device_step){.n_rows = n * load->n_rows,
                                     .n_sequences = n,
                                     .positions = b->positions,
                                     .sequence = b->row_sequence,
                                     .sequences = b->sequences};
}

static void free_batch(struct batch *b)
{
  free(b->entries);
  free(b->sequences);
  free(b->row_sequence);
  free(b->positions);
}

/* Quantises every full block into the spare units, which are the next one's spare. */
static void quantise(struct lls_device *d, struct lls_pool *pool, struct batch *b)
{
  uint32_t spare = b->pool.device_units - lls_form_units(&b->pool, LLS_FORM_KV);
  for (uint32_t i = 0; i < b->step.n_sequences; i++) {
    struct lls_block_entry *list = (struct lls_block_entry *)b->sequences[i].kv.entries;
    for (uint32_t j = 0; (j + 1) * BLOCK_TOKENS <= b->sequences[i].context; j++) {
      const struct lls_copy copy = {.n_slots = BLOCK_TOKENS,
                                    .source = list[j].block,
                                    .target = spare,
                                    .target_form = LLS_FORM_INT8};
      if (d->ops->pool_copy(d, pool, &copy, 1) < 0)
        gpu_die("quantising blocks", NULL, -EINVAL);
      spare = list[j].block;
      list[j].block = copy.target;
      list[j].form = LLS_FORM_INT8;
    }
  }
}

/* Returns the bytes of K and V of one layer. */
static double cached_bytes(const struct batch *b)
{
  double bytes = 0;
  for (uint32_t i = 0; i < b->step.n_sequences; i++)
    for (uint32_t j = 0; j < b->sequences[i].kv.n; j++)
      bytes += (double)lls_form_bytes(&b->pool, b->sequences[i].kv.entries[j].form);
  return bytes / b->pool.layers;
}

static void run_attention(const struct gpu_call *c, uint32_t layer)
{
  c->device->ops->attention(c->device, c->attention, layer, c->x, c->y);
}

static void run_write(const struct gpu_call *c, uint32_t layer)
{
  c->device->ops->cache_write(c->device, c->attention, layer, c->x);
}

static struct lls_pool_shape pool_shape(uint32_t kv_heads, uint32_t layers)
{
  return (struct lls_pool_shape){.layers = layers,
                                 .kv_heads = kv_heads,
                                 .head_dim = 128,
                                 .block_tokens = BLOCK_TOKENS,
                                 .element = LLS_BF16,
                                 .max_context = 4096};
}

/* `mark` is a share of the copy bandwidth for decodes, of the matrix peak for prompts;
 * 0: the ratio has no mark. */
static void attention(struct gpu_bench *b, struct lls_device *d, const struct load *load,
                      double mark)
{
  char name[64];
  bool decode = load->n_rows == 1;
  uint32_t tokens = load->context + load->n_rows;
  size_t layer =
      (size_t)load->n_sequences * (tokens + BLOCK_TOKENS) * load->kv_heads * 128 * 2 * 2;
  uint32_t layers = (uint32_t)(((size_t)16 << 30) / layer);
  layers = layers < 1 ? 1 : layers > MAX_LAYERS ? MAX_LAYERS : layers;
  struct batch batch = {.pool = pool_shape(load->kv_heads, layers)};
  snprintf(name, sizeof name, "%s%s %u/%u heads, %u x %u", decode ? "decode" : "prefill",
           load->int8 ? " int8" : "", load->heads, load->kv_heads, load->n_sequences,
           tokens);
  layer += load->int8 ? layer / 4 : 0; /* an int8 block also has scales */
  if (gpu_leave_out(b, name, layer * layers, gpu_available(d) / 10 * 9))
    return;
  batch.pool.int8 = load->int8 ? LLS_INT8_ALL : LLS_INT8_OFF;
  lay_out(&batch, load, false);
  batch.pool.device_units += load->int8 ? lls_form_units(&batch.pool, LLS_FORM_KV) : 0;
  const struct lls_attention_shape shape = {
      .heads = load->heads, .kv_heads = load->kv_heads, .head_dim = 128, .scale = 0.088f};
  uint32_t rows = batch.step.n_rows;
  struct gpu_call c = {
      .device = d,
      .pool = make_pool(d, &batch.pool),
      .step = &batch.step,
      .run = run_write,
      .calls = layers,
      .layers = layers,
      .attention = &shape,
      .x = gpu_random_rows(d, rows, (load->heads + 2 * load->kv_heads) * 128),
      .y = gpu_random_rows(d, rows, load->heads * 128)};
  gpu_round(&c);
  if (load->int8)
    quantise(d, c.pool, &batch);
  c.run = run_attention;
  c.calls = decode ? 32 : 16;
  double seconds = gpu_time(&c), n = load->n_rows, bytes = cached_bytes(&batch);
  double operations =
      4.0 * 128 * load->heads * load->n_sequences * (n * load->context + n * (n + 1) / 2);
  gpu_result(b, name, decode ? "of copy bandwidth" : "of the matrix peak",
             decode ? bytes / seconds / b->limits.copy
                    : operations / seconds / b->limits.matrix,
             mark, false);
  d->ops->pool_destroy(d, c.pool);
  d->ops->release(d, LLS_MEMORY_DEVICE, c.x);
  d->ops->release(d, LLS_MEMORY_DEVICE, c.y);
  free_batch(&batch);
}

static void all_attention(struct gpu_bench *b, struct lls_device *d)
{
  static const struct {
    uint32_t heads, kv_heads;
  } shapes[] = {{32, 8}, {40, 40}}; /* Llama-3-8B, OPT-13B */
  static const uint32_t batches[] = {1, 16, 64, 256}, contexts[] = {512, 4096, 32768};
  static const uint32_t prompts[] = {4096, 16384};
  for (size_t s = 0; s < 2; s++) {
    struct load load = {.heads = shapes[s].heads, .kv_heads = shapes[s].kv_heads};
    load.n_rows = 1;
    for (size_t i = 0; i < 12; i++) {
      load.n_sequences = batches[i / 3];
      load.context = contexts[i % 3] - 1;
      attention(b, d, &load, load.n_sequences >= 16 && i % 3 > 0 ? 0.85 : 0);
    }
    load.int8 = true;
    load.context = 4095;
    for (load.n_sequences = 16; load.n_sequences <= 256; load.n_sequences *= 4)
      attention(b, d, &load, 0.80);
    load.int8 = false;
    load.n_sequences = 1;
    load.context = 0;
    for (size_t i = 0; i < 2; i++) {
      load.n_rows = prompts[i];
      attention(b, d, &load, 0.60);
    }
  }
}

/* ---- hidden states, blocks ---------------------------------------------------- */

static void run_restore(const struct gpu_call *c, uint32_t layer)
{
  c->device->ops->restore(c->device, c->attention, c->rope, layer, *c->weights);
}

static void restore(struct gpu_bench *b, struct lls_device *d)
{
  enum { TOKENS = 2048, HEADS = 40, HIDDEN = HEADS * 128 };
  const struct load load = {.n_sequences = 1, .context = TOKENS, .n_rows = 1};
  const struct lls_attention_shape shape = {
      .heads = HEADS, .kv_heads = HEADS, .head_dim = 128, .scale = 0.088f};
  float frequency[64];
  for (int i = 0; i < 64; i++)
    frequency[i] = 1.0f / (float)(1 + i);
  const struct lls_rope_shape rope = {.head_dim = 128,
                                      .rotary_dims = 128,
                                      .inverse_frequency = frequency,
                                      .attention_factor = 1};
  const struct lls_tensor_view view = {.dtype = LLS_BF16,
                                       .rows = 3 * HIDDEN,
                                       .columns = HIDDEN,
                                       .row_stride = HIDDEN,
                                       .seed = 3};
  struct batch batch = {.pool = pool_shape(HEADS, MAX_LAYERS)};
  struct lls_weight *w;
  struct lls_error err = {""};
  batch.pool.scratch_blocks = 1;
  if (gpu_leave_out(b, "restore 2048 tokens, 5120 wide", (size_t)4 << 30,
                    gpu_available(d)))
    return;
  lay_out(&batch, &load, true);
  batch.sequences[0].n_restored = TOKENS;
  int rc = d->ops->weight_create(d, &view, NULL, 1, LLS_WEIGHTS_BF16, &w, &err);
  if (rc < 0)
    gpu_die("a weight", &err, rc);
  struct gpu_call c = {.device = d,
                       .pool = make_pool(d, &batch.pool),
                       .step = &batch.step,
                       .run = run_restore,
                       .calls = 16,
                       .layers = MAX_LAYERS,
                       .attention = &shape,
                       .rope = &rope,
                       .weights = &w};
  double operations = 2.0 * TOKENS * HIDDEN * 2 * HIDDEN;
  gpu_result(b, "restore 2048 tokens, 5120 wide", "of the matrix peak",
             operations / gpu_time(&c) / b->limits.matrix, 0.70, false);
  d->ops->pool_destroy(d, c.pool);
  d->ops->weight_destroy(d, w);
  free_batch(&batch);
}

/* Measures copies of blocks of 1 MiB, as Llama-3-8B has them, in random order. */
static void block_copies(struct gpu_bench *b, struct lls_device *d)
{
  enum { BLOCKS = 1024 };
  struct lls_pool_shape shape = pool_shape(8, 32);
  static struct lls_copy copies[BLOCKS];
  if (gpu_leave_out(b, "block copies", (size_t)2 << 30, gpu_available(d)))
    return;
  shape.device_units = shape.host_units = BLOCKS;
  struct lls_pool *pool = make_pool(d, &shape);
  for (uint8_t kind = LLS_COPY_DEVICE_TO_HOST; kind <= LLS_COPY_HOST_TO_DEVICE; kind++) {
    for (uint32_t i = 0; i < BLOCKS; i++)
      copies[i] = (struct lls_copy){.source_tier = kind == LLS_COPY_HOST_TO_DEVICE,
                                    .target_tier = kind == LLS_COPY_DEVICE_TO_HOST,
                                    .source_form = LLS_FORM_HIDDEN, /* one unit */
                                    .target_form = LLS_FORM_HIDDEN,
                                    .n_slots = BLOCK_TOKENS,
                                    .source = i * 389 % BLOCKS,
                                    .target = i * 173 % BLOCKS};
    double bytes = BLOCKS * (double)lls_unit_bytes(&shape);
    bool to_host = kind == LLS_COPY_DEVICE_TO_HOST;
    double link = to_host ? b->limits.to_host : b->limits.to_device;
    gpu_result(b, to_host ? "blocks to the host" : "blocks to the device", "of the link",
               bytes / time_copies(d, pool, copies, BLOCKS) / link, 0.80, false);
  }
  d->ops->pool_destroy(d, pool);
}

void gpu_mixtures(struct gpu_bench *b)
{
  struct lls_device *d = gpu_open(GPU_MAX_ROWS, MAX_COLUMNS, 1);
  gpu_experts(b, d);
  d->ops->destroy(d);
}

void gpu_operations(struct gpu_bench *b)
{
  struct lls_device *d = gpu_open(GPU_MAX_ROWS, MAX_COLUMNS, 256);
  all_attention(b, d);
  restore(b, d);
  block_copies(b, d);
  gpu_products(b, d);
  gpu_experts(b, d);
  d->ops->destroy(d);
}
