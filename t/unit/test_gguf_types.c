/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models whose matrices, embeddings and head are of one of GGUF's types, against the same
 * numbers in a file of F32. As F32 the logits are the same; as codes they differ by the
 * rounding of activations to 8 bits.
 */
#include "t/gguf_model.h"
#include "t/quantised_data.h"
#include "t/sequence.h"

#include "core/device/tensor.h"
#include "core/engine/engine.h"
#include "kernels/cpu/device.h"

#include <math.h>

#define TOLERANCE 0.05 /* norm of the error / norm of the logits, all rows together */

enum { HIDDEN = 256, HEAD = 64, VOCAB = 48, TOKENS = 12, LOGITS = TOKENS * VOCAB };

static const struct type {
  enum lls_dtype dtype;
  uint32_t number; /* in files */
} types[] = {
    {LLS_Q2_K, 10},   {LLS_Q3_K, 11},    {LLS_Q4_K, 12},   {LLS_IQ2_XXS, 16},
    {LLS_IQ2_XS, 17}, {LLS_IQ3_XXS, 18}, {LLS_IQ1_S, 19},  {LLS_IQ4_NL, 20},
    {LLS_IQ3_S, 21},  {LLS_IQ2_S, 22},   {LLS_IQ4_XS, 23}, {LLS_IQ1_M, 29},
    {LLS_TQ1_0, 34},  {LLS_TQ2_0, 35},
};

static const struct part {
  const char *name;
  size_t rows;
} parts[] = {
    {"token_embd.weight", VOCAB},      {"output.weight", VOCAB},
    {"blk.0.attn_q.weight", HIDDEN},   {"blk.0.attn_k.weight", 2 * HEAD},
    {"blk.0.attn_v.weight", 2 * HEAD}, {"blk.0.attn_output.weight", HIDDEN},
    {"blk.0.ffn_gate.weight", HIDDEN}, {"blk.0.ffn_up.weight", HIDDEN},
    {"blk.0.ffn_down.weight", HIDDEN},
};
static const char *const norms[] = {"output_norm.weight", "blk.0.attn_norm.weight",
                                    "blk.0.ffn_norm.weight"};

static uint32_t random_bits(void)
{
  static uint64_t state = 1;
  state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (uint32_t)(state >> 32);
}

/* Fills a matrix with random blocks, of numbers whose mean square is that of a model. */
static void fill(const struct lls_tensor_view *v, uint8_t *blocks, float *numbers)
{
  size_t n = lls_dtype_block(v->dtype), each = lls_dtype_row_bytes(v->dtype, n);
  size_t all = v->rows * v->columns / n;
  double squares = 0;
  for (size_t i = 0; i < all * each; i++)
    blocks[i] = (uint8_t)random_bits();
  for (int pass = 0; pass < 2; pass++) {
    float step = pass == 0 ? 1 : 0.06f / (float)sqrt(squares / (double)(all * n));
    for (size_t i = 0; i < all; i++)
      set_step(v->dtype, blocks + i * each,
               step * (pass == 0 ? 1 : 0.5f + (float)random_bits() * 0x1p-32f));
    for (size_t row = 0; row < v->rows; row++)
      lls_tensor_read_row(v, row, numbers + row * v->columns);
    for (size_t i = 0; pass == 0 && i < all * n; i++)
      squares += (double)numbers[i] * (double)numbers[i];
  }
}

static void begin_model(struct gguf_builder *b)
{
  const struct lls_model_config c = {.layers = 1,
                                     .hidden = HIDDEN,
                                     .ffn = HIDDEN,
                                     .heads = HIDDEN / HEAD,
                                     .kv_heads = 2,
                                     .head_dim = HEAD,
                                     .max_context = 64,
                                     .norm_epsilon = 1e-6F,
                                     .rope = {.theta = 1e4, .dims = HEAD}};
  float ones[HIDDEN];
  for (int i = 0; i < HIDDEN; i++)
    ones[i] = 1;
  *b = (struct gguf_builder){0};
  gguf_describe(b, "llama", &c);
  for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
    gguf_tensor(b, norms[i], 0, 0, HIDDEN, ones, sizeof ones);
}

/* Writes the model in that type as coded.gguf, and in F32 as plain.gguf. */
static void write_models(const struct type *type, const struct folder *folder)
{
  static uint8_t blocks[HIDDEN * HIDDEN * 2];
  static float numbers[HIDDEN * HIDDEN];
  struct gguf_builder coded, plain;
  begin_model(&coded);
  begin_model(&plain);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    size_t rows = parts[i].rows;
    const struct lls_tensor_view v = {.data = blocks,
                                      .dtype = type->dtype,
                                      .rows = rows,
                                      .columns = HIDDEN,
                                      .row_stride = HIDDEN};
    fill(&v, blocks, numbers);
    gguf_tensor(&coded, parts[i].name, type->number, rows, HIDDEN, blocks,
                rows * lls_dtype_row_bytes(type->dtype, HIDDEN));
    gguf_tensor(&plain, parts[i].name, 0, rows, HIDDEN, numbers,
                rows * HIDDEN * sizeof *numbers);
  }
  gguf_write(&coded, folder, "coded.gguf");
  gguf_write(&plain, folder, "plain.gguf");
  gguf_free(&coded);
  gguf_free(&plain);
}

static void run(struct lls_engine *engine, float *out)
{
  static struct units units;
  static struct sequence s;
  int32_t tokens[TOKENS];
  struct lls_engine_result result;
  struct lls_error err = {0};
  for (int i = 0; i < TOKENS; i++)
    tokens[i] = (i * 29 + 7) % VOCAB;
  units_init(&units, 8, 2);
  sequence_init(&s);
  sequence_grow(&s, &units, TOKENS, 16);
  const struct lls_engine_sequence all = {
      .tokens = tokens, .n_tokens = TOKENS, .table = &s.table, .all_logits = true};
  const struct lls_engine_batch batch = {.n_sequences = 1, .sequences = &all};
  if (lls_engine_submit(engine, &batch, &err) != 0 ||
      lls_engine_wait(engine, &result, &err) != 0)
    fail_msg("%s", err.text);
  memcpy(out, lls_engine_logits(engine, 0), LOGITS * sizeof *out);
}

/* Computes the logits of a file of the folder, and returns the model's type. */
static enum lls_dtype logits_of(const struct folder *folder, const char *name,
                                enum lls_weight_format weights, float *out)
{
  char path[160];
  struct lls_model_config config;
  struct lls_error err = {0};
  struct lls_device *device;
  struct lls_engine *engine;
  snprintf(path, sizeof path, "%s/%s", folder->path, name);
  if (lls_model_config_read(path, &config, &err) != 0)
    fail_msg("%s", err.text);
  const struct lls_device_options on = {.threads = 1,
                                        .max_rows = TOKENS,
                                        .max_columns = lls_engine_max_columns(&config),
                                        .max_sequences = 1};
  const struct lls_engine_options options = {.model_path = path,
                                             .weights = weights,
                                             .cache_element = LLS_F32,
                                             .max_tokens = TOKENS,
                                             .max_sequences = 1,
                                             .max_logits = TOKENS,
                                             .block_tokens = 16,
                                             .cache_bytes = 1 << 20};
  if (lls_cpu_device_create(&on, &device, &err) != 0 ||
      lls_engine_create(&options, &config, device, &engine, &err) != 0)
    fail_msg("%s", err.text);
  run(engine, out);
  lls_engine_destroy(engine);
  device->ops->destroy(device);
  return config.dtype;
}

static void test_a_model_of_each_type(void **state)
{
  (void)state;
  static float plain[LOGITS], same[LOGITS], coded[LOGITS];
  struct folder folder;
  folder_make(&folder);
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    const char *name = lls_dtype_name(types[t].dtype);
    double error = 0, norm = 0;
    write_models(&types[t], &folder);
    logits_of(&folder, "plain.gguf", LLS_WEIGHTS_F32, plain);
    assert_int_equal(logits_of(&folder, "coded.gguf", LLS_WEIGHTS_F32, same),
                     types[t].dtype);
    logits_of(&folder, "coded.gguf", LLS_WEIGHTS_AUTO, coded);
    assert_memory_equal(same, plain, sizeof plain);
    for (size_t i = 0; i < LOGITS; i++) {
      error += pow((double)(coded[i] - plain[i]), 2);
      norm += pow((double)plain[i], 2);
    }
    print_message("# %s: relative error of the logits %.2g\n", name, sqrt(error / norm));
    if (!(error <= TOLERANCE * TOLERANCE * norm))
      fail_msg("%s: the logits are wrong by %.2g of their norm", name,
               sqrt(error / norm));
  }
  folder_remove(&folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_model_of_each_type)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
