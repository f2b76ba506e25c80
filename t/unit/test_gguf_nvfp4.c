/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GGUF files in NVFP4: every matrix has the numbers that gguf-py makes of its blocks
 * (t/data/quantised/NVFP4), times the tensor of its scale; and refusals.
 */
#include "t/gguf_model.h"
#include "t/quantised_data.h"

#include "core/device/tensor.h"
#include "core/model/gguf.h"

#include <errno.h>

enum { SIZE = 256, HEAD = 64, VECTORS = 2, BLOCK = 36, BLOCKS = SIZE / 64, NVFP4 = 40 };
#define ROW_BYTES (BLOCKS * BLOCK)
#define SCALE     0.5f

static const struct part {
  const char *name, *own;
  bool scaled;
} parts[] = {
    {"model.embed_tokens", "token_embd", false},
    {"model.layers.0.self_attn.q_proj", "blk.0.attn_q", true}, /* rows in pairs */
    {"model.layers.0.mlp.down_proj", "blk.0.ffn_down", true},
};

/* Reads the file of vectors, and makes each row i of a matrix row i % 2 of them, turned
 * by i / 2 blocks. */
static void matrix(uint8_t blocks[SIZE][ROW_BYTES], float numbers[SIZE][SIZE])
{
  static uint8_t coded[VECTORS][BLOCKS][BLOCK];
  static float plain[VECTORS][BLOCKS][64];
  FILE *file = fopen(source_path("t/data/quantised/NVFP4"), "rb");
  assert_non_null(file);
  assert_int_equal(fread(coded, 1, sizeof coded, file), sizeof coded);
  assert_int_equal(fread(plain, 1, sizeof plain, file), sizeof plain);
  fclose(file);
  for (size_t row = 0; row < SIZE; row++)
    for (size_t i = 0; i < BLOCKS; i++) {
      size_t from = (i + row / 2) % BLOCKS;
      memcpy(blocks[row] + i * BLOCK, coded[row % 2][from], BLOCK);
      memcpy(numbers[row] + i * 64, plain[row % 2][from], sizeof plain[0][0]);
    }
}

static void begin(struct gguf_builder *b)
{
  const struct lls_model_config c = {.layers = 1,
                                     .hidden = SIZE,
                                     .ffn = SIZE,
                                     .heads = SIZE / HEAD,
                                     .kv_heads = SIZE / HEAD,
                                     .head_dim = HEAD,
                                     .max_context = 64,
                                     .norm_epsilon = 1e-6F,
                                     .rope = {.theta = 1e4, .dims = HEAD}};
  *b = (struct gguf_builder){0};
  gguf_describe(b, "llama", &c);
}

static struct lls_checkpoint *open_file(const struct folder *folder, const char *name)
{
  struct lls_checkpoint *out;
  struct lls_error err = {0};
  char path[160];
  snprintf(path, sizeof path, "%s/%s", folder->path, name);
  if (lls_gguf_checkpoint(path, &out, &err) != 0)
    fail_msg("%s", err.text);
  return out;
}

/* Writes the matrices in NVFP4 as coded.gguf, and in F32 as plain.gguf. */
static void write_files(const struct folder *folder)
{
  static uint8_t blocks[SIZE][ROW_BYTES];
  static float numbers[SIZE][SIZE], scaled[SIZE][SIZE];
  struct gguf_builder coded, plain;
  const float scale = SCALE;
  matrix(blocks, numbers);
  for (size_t i = 0; i < SIZE * (size_t)SIZE; i++)
    scaled[i / SIZE][i % SIZE] = SCALE * numbers[i / SIZE][i % SIZE];
  begin(&coded);
  begin(&plain);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s.weight", parts[i].own);
    gguf_tensor(&coded, name, NVFP4, SIZE, SIZE, blocks, sizeof blocks);
    gguf_tensor(&plain, name, 0, SIZE, SIZE, parts[i].scaled ? scaled : numbers,
                sizeof numbers);
    snprintf(name, sizeof name, "%s.scale", parts[i].own);
    if (parts[i].scaled)
      gguf_tensor(&coded, name, 0, 0, 1, &scale, sizeof scale);
  }
  gguf_write(&coded, folder, "coded.gguf");
  gguf_write(&plain, folder, "plain.gguf");
  gguf_free(&coded);
  gguf_free(&plain);
}

static void test_the_numbers_are_gguf_pys(void **state)
{
  (void)state;
  struct folder folder;
  folder_make(&folder);
  write_files(&folder);
  struct lls_checkpoint *coded = open_file(&folder, "coded.gguf"),
                        *plain = open_file(&folder, "plain.gguf");
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    struct lls_tensor_view a, b;
    struct lls_error err = {0};
    float x[SIZE], y[SIZE];
    char name[64];
    snprintf(name, sizeof name, "%s.weight", parts[i].name);
    if (lls_checkpoint_view(coded, name, SIZE, SIZE, &a, &err) != 0 ||
        lls_checkpoint_view(plain, name, SIZE, SIZE, &b, &err) != 0)
      fail_msg("%s", err.text);
    assert_int_equal(a.dtype, LLS_CODED);
    for (size_t row = 0; row < SIZE; row++) {
      lls_tensor_read_row(&a, row, x);
      lls_tensor_read_row(&b, row, y);
      for (size_t k = 0; k < SIZE; k++)
        if (!(x[k] == y[k]))
          fail_msg("%s: row %zu, column %zu: %.9g, not %.9g", name, row, k, (double)x[k],
                   (double)y[k]);
    }
  }
  lls_checkpoint_close(coded);
  lls_checkpoint_close(plain);
  folder_remove(&folder);
}

static void test_a_file_says_that_it_is_nvfp4(void **state)
{
  (void)state;
  struct folder folder;
  struct lls_model_config config;
  struct lls_error err = {0};
  char path[160];
  folder_make(&folder);
  write_files(&folder);
  snprintf(path, sizeof path, "%s/coded.gguf", folder.path);
  if (lls_model_config_read(path, &config, &err) != 0)
    fail_msg("%s", err.text);
  assert_int_equal(config.dtype, LLS_CODED);
  assert_int_equal(config.code_bits, 4);
  folder_remove(&folder);
}

static void test_a_wrong_scale_is_refused(void **state)
{
  (void)state;
  static uint8_t blocks[SIZE][ROW_BYTES];
  const float scales[2] = {1, 2};
  struct folder folder;
  struct gguf_builder b;
  struct lls_tensor_view view;
  struct lls_error err = {0};
  folder_make(&folder);
  begin(&b);
  gguf_tensor(&b, "token_embd.weight", NVFP4, SIZE, SIZE, blocks, sizeof blocks);
  gguf_tensor(&b, "token_embd.scale", 0, 0, 2, scales, sizeof scales);
  gguf_write(&b, &folder, "wrong.gguf");
  gguf_free(&b);
  struct lls_checkpoint *wrong = open_file(&folder, "wrong.gguf");
  assert_int_equal(
      lls_checkpoint_view(wrong, "model.embed_tokens.weight", SIZE, SIZE, &view, &err),
      -EINVAL);
  assert_non_null(strstr(err.text, "tensor token_embd.scale should be one number"));
  lls_checkpoint_close(wrong);
  folder_remove(&folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_numbers_are_gguf_pys),
      cmocka_unit_test(test_a_file_says_that_it_is_nvfp4),
      cmocka_unit_test(test_a_wrong_scale_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
