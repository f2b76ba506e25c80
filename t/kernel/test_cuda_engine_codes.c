/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole models with weights of 4 to 8 bits on the CUDA device: quantised at load, from a
 * quantised folder, and a GGUF file's experts in MXFP4. Each is as close to the
 * reference as the CPU with the same codes, except for activations in bf16
 * (t/unit/test_engine_formats.c bounds the CPU's error). Steps of a whole prompt use
 * the products for many rows, chunks and decodes those for few, and restored tokens a
 * part of a layer's outputs.
 */
#include "t/drive.h"
#include "t/gguf_model.h"

#include "core/device/devices.h"
#include "kernels/builtin.h"

#define TOLERANCE 1.5e-2 /* a layer's, as in test_cuda_engine.c */
#define MIXTURES  0.5    /* where a rounded score sends a row to another expert */

extern const struct lls_device_module lls_device_module; /* the emulated one */

/* The emulated device, or with LLS_GPU_ONLY a GPU. */
static int create_cuda(const struct lls_device_options *options, struct lls_device **out,
                       struct lls_error *err)
{
  return getenv("LLS_GPU_ONLY") != NULL
             ? lls_device_create(LLS_DEVICE_CUDA, &lls_builtin_devices, options, out,
                                 NULL, err)
             : lls_device_module.create(options, out, err);
}

static const struct drive_rule rules[] = {
    {.chunk = DRIVE_MAX_TOKENS},
    {.chunk = 16, .stagger = 3, .hidden = true, .convert = 9, .n_prompts = 1},
};

struct outcome {
  double worst;        /* row's error, as a part of it */
  size_t weight_bytes; /* bytes of the engine's weights */
  uint32_t layers;
};

static struct outcome run(const char *model, const struct drive_options *options)
{
  struct drive_model m = {0};
  struct outcome outcome = {0};
  drive_open(&m, model, options);
  outcome.layers = lls_engine_config(m.engine)->layers;
  outcome.weight_bytes = lls_engine_weight_bytes(m.engine);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i += TAP_STEP(2)) {
    if (rules[i].hidden && lls_engine_why_no_hidden(m.engine) != NULL)
      continue;
    struct drive_outcome o = drive_run(&m, &rules[i]);
    outcome.worst = fmax(outcome.worst, o.worst_relative);
  }
  drive_close(&m);
  return outcome;
}

/* Also checks that the weights take fewer bytes than in bf16, and that the cache gets
 * the difference. */
static void check(const char *model, const char *path, enum lls_weight_format weights,
                  double tolerance)
{
  struct drive_options options = {
      .weights = weights, .cache_element = LLS_BF16, .path = path};
  struct outcome cpu = run(model, &options), cuda, wide;
  options.create_device = create_cuda;
  cuda = run(model, &options);
  options.weights = LLS_WEIGHTS_BF16;
  wide = run(model, &options);
  print_message("# %s, weights %d: worst row %.3g, on the CPU %.3g; %zu bytes, %zu in "
                "bf16\n",
                model, weights, cuda.worst, cpu.worst, cuda.weight_bytes,
                wide.weight_bytes);
  if (!(cuda.worst <= cpu.worst + tolerance * cuda.layers))
    fail_msg("%s: %.3g from the reference, on the CPU %.3g", model, cuda.worst,
             cpu.worst);
  assert_true(cuda.weight_bytes < wide.weight_bytes);
}

static void test_int8(void **state)
{
  check(*state, NULL, LLS_WEIGHTS_INT8,
        strcmp(*state, "mixtral") == 0 ? MIXTURES : TOLERANCE);
}

static void test_int4(void **state)
{
  check(*state, NULL, LLS_WEIGHTS_INT4, 2 * TOLERANCE);
}

static void test_as_it_is(void **state)
{
  check(*state, NULL, LLS_WEIGHTS_AUTO, TOLERANCE);
}

static void test_gguf(void **state)
{
  struct folder folder;
  char path[128];
  gguf_folder(*state, &folder, path);
  check(*state, path, LLS_WEIGHTS_AUTO, MIXTURES);
  folder_remove(&folder);
}

int main(void)
{
  static char llama[] = "llama", opt[] = "opt", mixtral[] = "mixtral",
              gptq[] = "llama-gptq", gpt_oss[] = "gpt-oss";
  const struct CMUnitTest tests[] = {
      {"llama in int8", test_int8, NULL, NULL, llama},
      {"opt in int4", test_int4, NULL, NULL, opt},
      {"mixtral in int8", test_int8, NULL, NULL, mixtral},
      {"llama in GPTQ", test_as_it_is, NULL, NULL, gptq},
      {"gpt-oss in MXFP4", test_gguf, NULL, NULL, gpt_oss},
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
