/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of the engine: model folders that are damaged or too large, and steps with
 * mistakes of the caller. Each has its message, and the engine continues to work.
 */
#include "t/drive.h"
#include "t/gguf_model.h"
#include "kernels/cpu/device.h"

#include <errno.h>

static void expect(int rc, int code, const struct lls_error *err, const char *sentence)
{
  assert_int_equal(rc, code);
  if (strstr(err->text, sentence) == NULL)
    fail_msg("\"%s\" should contain \"%s\"", err->text, sentence);
}

/* ---- folders -------------------------------------------------------------------- */

static int create(const char *folder, const struct lls_engine_options *extra,
                  struct lls_error *err)
{
  struct lls_model_config config;
  int rc = lls_model_config_read(folder, &config, err);
  assert_int_equal(rc, 0);
  struct lls_device_options device_options = {
      .threads = 1, .max_rows = 16, .max_sequences = 2, .max_columns = 4096};
  struct lls_device *device;
  assert_int_equal(lls_cpu_device_create(&device_options, &device, err), 0);
  struct lls_engine_options options = *extra;
  options.model_path = folder;
  options.max_tokens = 16;
  options.max_sequences = 2;
  struct lls_engine *engine = NULL;
  rc = lls_engine_create(&options, &config, device, &engine, err);
  assert_true((rc == 0) == (engine != NULL));
  lls_engine_destroy(engine);
  device->ops->destroy(device);
  return rc;
}

static const struct lls_engine_options usual = {.block_tokens = 16,
                                                .cache_bytes = 1 << 20};

/* Links the weights of `llama`, with a config.json changed in one place. */
static void borrow_llama(const struct folder *folder, const char *from, const char *to)
{
  char target[4200], link[128], text[4096];
  snprintf(target, sizeof target, "%s/model.safetensors",
           source_path("t/data/models/llama"));
  snprintf(link, sizeof link, "%s/model.safetensors", folder->path);
  unlink(link);
  assert_int_equal(symlink(target, link), 0);
  FILE *file = fopen(source_path("t/data/models/llama/config.json"), "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  char *at = strstr(text, from), changed[8192];
  assert_non_null(at);
  snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to,
           at + strlen(from));
  folder_write_text(folder, "config.json", changed);
}

static void test_tensors_are_held_against_the_config(void **state)
{
  const struct folder *folder = *state;
  static const struct {
    const char *from, *to;
    int code;
    const char *sentence;
  } cases[] = {
      {"LlamaFor", "LlamaFor", 0, ""},
      {"\"intermediate_size\": 96", "\"intermediate_size\": 97", -EINVAL,
       "tensor model.layers.0.mlp.gate_proj.weight has shape [96, 64], but config.json "
       "makes it [97, 64]"},
      {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4", -EINVAL,
       "tensor model.layers.0.self_attn.k_proj.weight has shape [16, 64], but "
       "config.json "
       "makes it [32, 64]"},
      {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", -ENOENT,
       "tensor model.layers.2.input_layernorm.weight is missing"},
      {"\"vocab_size\": 256", "\"vocab_size\": 255", -EINVAL,
       "tensor model.embed_tokens.weight has shape [256, 64]"},
      {"\"mlp_bias\": false", "\"mlp_bias\": true", -ENOENT,
       "tensor model.layers.0.mlp.gate_proj.bias is missing"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct lls_error err = {0};
    borrow_llama(folder, cases[i].from, cases[i].to);
    int rc = create(folder->path, &usual, &err);
    expect(rc, cases[i].code, &err, cases[i].sentence);
  }
}

/* Copies a file of a model, with some names in its header changed. */
static void copy_renamed(const struct folder *folder, const char *model, const char *name,
                         const char *from, const char *to)
{
  static char bytes[1 << 20];
  char path[128];
  snprintf(path, sizeof path, "t/data/models/%s/%s", model, name);
  FILE *file = fopen(source_path(path), "rb");
  assert_non_null(file);
  size_t n = fread(bytes, 1, sizeof bytes, file), length = strlen(from);
  assert_int_equal(length, strlen(to));
  assert_true(n < sizeof bytes);
  fclose(file);
  for (size_t i = 0; i + length <= n; i++) {
    if (memcmp(bytes + i, from, length) == 0)
      memcpy(bytes + i, to, length);
  }
  folder_write(folder, name, bytes, n);
}

/* gpt-oss in 16 bits, as it is after fine-tuning. */
/* Experts in 16 bits are read; these are MXFP4 blocks under their name. */
static void test_blocks_are_no_plain_experts(void **state)
{
  const struct folder *folder = *state;
  struct lls_error err = {0};
  copy_renamed(folder, "gpt-oss", "config.json", "GptOss", "GptOss");
  copy_renamed(folder, "gpt-oss", "model.safetensors", "gate_up_proj_blocks\"",
               "gate_up_proj\"       ");
  expect(create(folder->path, &usual, &err), -ENOTSUP, &err,
         "experts.gate_up_proj is of type U8; F32, F16 and BF16 can be used");
}

static void test_dummy_weights_need_no_file(void **state)
{
  const struct folder *folder = *state;
  struct lls_error err = {0};
  struct lls_engine_options dummy = usual;
  dummy.dummy = true;
  borrow_llama(folder, "LlamaFor", "LlamaFor");
  char path[128];
  snprintf(path, sizeof path, "%s/model.safetensors", folder->path);
  unlink(path);
  expect(create(folder->path, &usual, &err), -ENOENT, &err, "neither model.safetensors");
  assert_int_equal(create(folder->path, &dummy, &err), 0);
}

/* Dummy weights do not depend on the type of the file's weights. */
static void test_dummy_weights_of_quantised_models(void **state)
{
  static const uint32_t types[] = {2, 8, 12, 39}; /* Q4_0, Q8_0, Q4_K, MXFP4 */
  const struct folder *folder = *state;
  struct lls_engine_options dummy = usual;
  struct lls_error err = {0};
  static const unsigned char zeros[256 * 256];
  char path[128];
  dummy.dummy = true;
  snprintf(path, sizeof path, "%s/x.gguf", folder->path);
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    const size_t bytes[] = {8 * 18, 8 * 34, 144, 8 * 17}; /* bytes of 256 values */
    struct gguf_builder b = {0};
    struct lls_model_config c = gguf_small_model();
    c.hidden = c.ffn = 256; /* but rows of heads are no whole blocks of Q4_K */
    c.head_dim = c.rope.dims = 64;
    gguf_describe(&b, "llama", &c);
    gguf_tensor(&b, "token_embd.weight", types[i], 8, 256, zeros, 8 * bytes[i]);
    gguf_write(&b, folder, "x.gguf");
    gguf_free(&b);
    int rc = create(path, &dummy, &err);
    if (rc != 0)
      fail_msg("type %u: %s", types[i], lls_error_text(&err, rc));
  }
  gguf_convert("gpt-oss", folder, "x.gguf");
  assert_int_equal(create(path, &dummy, &err), 0);
  char gptq[4096];
  snprintf(gptq, sizeof gptq, "%s", source_path("t/data/models/llama-gptq"));
  assert_int_equal(create(gptq, &dummy, &err), 0);
}

static bool give_up(void *context, size_t done, size_t total)
{
  (void)done;
  (void)total;
  return ++*(int *)context < 3;
}

static void test_loading_can_be_given_up(void **state)
{
  (void)state;
  struct lls_error err = {0};
  int told = 0;
  struct lls_engine_options options = usual;
  options.progress = give_up;
  options.progress_context = &told;
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", source_path("t/data/models/llama"));
  expect(create(folder, &options, &err), -ECANCELED, &err, "loading was given up");
  assert_int_equal(told, 3);
}

/* 2^20 x 2^24 weights in each of 4096 layers fit nowhere. */
static void test_a_model_that_does_not_fit(void **state)
{
  const struct folder *folder = *state;
  struct lls_error err = {0};
  struct lls_engine_options huge = usual;
  huge.dummy = true;
  folder_write_text(folder, "config.json",
                    "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":1048576,"
                    "\"intermediate_size\":16777216,\"num_hidden_layers\":1024,"
                    "\"num_attention_heads\":8192,\"vocab_size\":1000,"
                    "\"max_position_embeddings\":64}");
  expect(create(folder->path, &huge, &err), -ENOMEM, &err,
         "MiB of weights and 1 MiB of cache and");
  struct lls_engine_options roomy = usual;
  roomy.cache_bytes = (size_t)1 << 46;
  expect(create(source_path("t/data/models/llama"), &roomy, &err), -ENOMEM, &err,
         ": [cache] device_memory, host_memory or [engine] max_step_tokens has to be "
         "smaller");
}

static void test_odd_options(void **state)
{
  (void)state;
  char llama[4096];
  snprintf(llama, sizeof llama, "%s", source_path("t/data/models/llama"));
  struct lls_error err = {0};
  struct lls_engine_options options = usual;
  options.cache_bytes = 100;
  expect(create(llama, &options, &err), -EINVAL, &err, "does not hold one block");
  options = usual;
  options.cache_element = LLS_I8;
  expect(create(llama, &options, &err), -ENOTSUP, &err, "cache of f32 or bf16");
  options = usual;
  options.block_tokens = 0;
  expect(create(llama, &options, &err), -EINVAL, &err, "1 or more");
}

/* ---- steps ---------------------------------------------------------------------- */

struct step { /* one valid sequence of 3 tokens, which each test makes invalid */
  int32_t tokens[64];
  struct units units;
  struct sequence sequence;
  struct lls_engine_sequence part;
  struct lls_engine_batch batch;
};

static void make_step(struct step *s)
{
  memset(s, 0, sizeof *s);
  units_init(&s->units, 64, 2);
  sequence_init(&s->sequence);
  sequence_grow(&s->sequence, &s->units, 64, 16);
  s->part = (struct lls_engine_sequence){
      .tokens = s->tokens, .n_tokens = 3, .table = &s->sequence.table};
  s->batch = (struct lls_engine_batch){.n_sequences = 1, .sequences = &s->part};
}

static void refuse(struct drive_model *m, const struct step *s, int code,
                   const char *sentence)
{
  struct lls_error err = {0};
  expect(lls_engine_submit(m->engine, &s->batch, &err), code, &err, sentence);
}

static void accept(struct drive_model *m, const struct step *s)
{
  struct lls_engine_result result;
  assert_int_equal(lls_engine_submit(m->engine, &s->batch, NULL), 0);
  assert_int_equal(lls_engine_wait(m->engine, &result, NULL), 0);
  assert_int_equal(result.n_sequences, s->batch.n_sequences);
}

static void test_wrong_sizes(void **state)
{
  struct drive_model *m = *state;
  struct step s;
  make_step(&s);
  accept(m, &s);
  s.part.n_tokens = 0;
  refuse(m, &s, -EINVAL, "sequence 0 of the step: 0 tokens after 0");
  make_step(&s);
  s.part.context = 256;
  refuse(m, &s, -EINVAL, "3 tokens after 256 where 256 are the most");
  make_step(&s);
  s.part.n_tokens = 33;
  refuse(m, &s, -EINVAL, "33 tokens in a step where 32 are the most");
  make_step(&s);
  s.batch.n_sequences = REFERENCE_MAX_PROMPTS + 1;
  refuse(m, &s, -EINVAL, "7 sequences in a step where 6 are the most");
  make_step(&s);
  s.tokens[2] = 256;
  refuse(m, &s, -EINVAL, "token 256 is outside the vocabulary of 256");
  s.tokens[2] = -1;
  refuse(m, &s, -EINVAL, "token -1 is outside");
  make_step(&s);
  accept(m, &s);
}

static void test_bad_tables(void **state)
{
  struct drive_model *m = *state;
  struct step s;
  make_step(&s);
  s.sequence.kv[2].block = DRIVE_DEVICE_UNITS - 1;
  refuse(m, &s, -EINVAL, "block of 2 units from unit 511 on of 512 in the pool");
  make_step(&s);
  s.sequence.kv[1].first_token = 17;
  refuse(m, &s, -EINVAL, "block table entry 1 has 16 tokens from 17 on where token 16");
  make_step(&s);
  s.sequence.kv[0].count = 17;
  refuse(m, &s, -EINVAL, "block table entry 0 has 17 tokens");
  make_step(&s);
  s.sequence.kv[3].count = 0;
  refuse(m, &s, -EINVAL, "block table entry 3 has 0 tokens");
  make_step(&s);
  s.part.context = 62;
  refuse(m, &s, -EINVAL, "the block table covers 64 of 65 tokens");
  make_step(&s);
  s.sequence.list.n_entries = 0;
  refuse(m, &s, -EINVAL, "the block table covers 0 of 3 tokens");
  make_step(&s);
  accept(m, &s);
}

static void test_unsupported_forms(void **state)
{
  struct drive_model *m = *state;
  const struct lls_engine_caps *caps = lls_engine_caps(m->engine);
  struct step s;
  make_step(&s);
  s.sequence.kv[0].form = LLS_FORM_HIDDEN;
  assert_int_equal(caps->forms, LLS_BIT_KV);
  refuse(m, &s, -ENOTSUP, "unsupported by this engine");
  make_step(&s);
  s.sequence.kv[0].direction = LLS_RIGHT_TO_LEFT + 1;
  assert_true(caps->right_to_left);
  refuse(m, &s, -EINVAL, "fills its block in direction 2");
  make_step(&s);
  s.sequence.kv[0].form = LLS_FORM_INT8;
  refuse(m, &s, -ENOTSUP, "unsupported by this engine");
}

/* INT8 blocks must be full, are never written, and are five units each. */
static void test_bad_int8_blocks(void **state)
{
  struct drive_model *m = *state;
  struct step s;
  make_step(&s);
  const struct lls_pool_shape *pool = lls_engine_pool_shape(m->engine);
  s.part.context = 32;
  s.sequence.kv[0].form = s.sequence.kv[1].form = LLS_FORM_INT8;
  s.sequence.kv[1].block = pool->device_units - 5;
  accept(m, &s);
  s.sequence.kv[1].block++;
  refuse(m, &s, -EINVAL, "block of 5 units from unit 2044 on of 2048 in the pool");
  s.sequence.kv[1].block = 0;
  s.part.context = 31;
  refuse(m, &s, -EINVAL, "an int8 block of 16 tokens from 16 on where 31 are cached");
  s.part.context = 32;
  s.sequence.kv[2].form = LLS_FORM_INT8;
  refuse(m, &s, -EINVAL, "an int8 block of 16 tokens from 32 on where 32 are cached");
  s.sequence.kv[2].form = LLS_FORM_INT8 + 1;
  refuse(m, &s, -ENOTSUP, "a block of form 4 in a list of keys and values");
  make_step(&s);
  accept(m, &s);
}

static void test_bad_copies(void **state)
{
  struct drive_model *m = *state;
  struct step s;
  make_step(&s);
  struct lls_copy copy = {.target_tier = LLS_TIER_HOST, .n_slots = 16};
  s.batch.copies = &copy;
  s.batch.n_copies = 1;
  accept(m, &s);
  s.batch.n_sequences = 0;
  accept(m, &s);
  copy.source = DRIVE_DEVICE_UNITS;
  refuse(m, &s, -EINVAL, "a copy of the step is outside the pool");
  copy.source = 0;
  copy.target = DRIVE_HOST_UNITS;
  refuse(m, &s, -EINVAL, "a copy of the step is outside the pool");
  copy.target = 0;
  copy.slot = 1;
  refuse(m, &s, -EINVAL, "a copy of the step is outside the pool");
}

static void test_submit_and_wait_take_turns(void **state)
{
  struct drive_model *m = *state;
  struct step s;
  make_step(&s);
  struct lls_engine_result result;
  assert_int_equal(lls_engine_wait(m->engine, &result, NULL), -EINVAL);
  assert_int_equal(lls_engine_submit(m->engine, &s.batch, NULL), 0);
  refuse(m, &s, -EBUSY, "was not waited for");
  assert_int_equal(lls_engine_wait(m->engine, &result, NULL), 0);
  assert_null(result.sampled[0]);
  assert_null(lls_engine_logits(m->engine, 0));
}

static int open_llama(void **state)
{
  static struct drive_model model;
  const struct drive_options options = {
      .weights = LLS_WEIGHTS_F32, .cache_element = LLS_F32, .max_tokens = 32};
  drive_open(&model, "llama", &options);
  *state = &model;
  return 0;
}

static int open_int8(void **state)
{
  static struct drive_model model;
  const struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                        .cache_element = LLS_BF16,
                                        .max_tokens = 32,
                                        .int8 = LLS_INT8_ALL};
  drive_open(&model, "llama", &options);
  *state = &model;
  return 0;
}

static int close_llama(void **state)
{
  drive_close(*state);
  return 0;
}

#define ON_LLAMA(test) cmocka_unit_test_setup_teardown(test, open_llama, close_llama)

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(test_tensors_are_held_against_the_config),
      IN_FOLDER(test_blocks_are_no_plain_experts),
      IN_FOLDER(test_dummy_weights_need_no_file),
      IN_FOLDER(test_dummy_weights_of_quantised_models),
      cmocka_unit_test(test_loading_can_be_given_up),
      IN_FOLDER(test_a_model_that_does_not_fit),
      cmocka_unit_test(test_odd_options),
      ON_LLAMA(test_wrong_sizes),
      ON_LLAMA(test_bad_tables),
      ON_LLAMA(test_unsupported_forms),
      cmocka_unit_test_setup_teardown(test_bad_int8_blocks, open_int8, close_llama),
      ON_LLAMA(test_bad_copies),
      ON_LLAMA(test_submit_and_wait_take_turns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
