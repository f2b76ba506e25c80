/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulator detects errors that a GPU may let pass by luck (t/simt/stream.cpp): a
 * device on the second GPU, called by threads that never selected one, must not use the
 * first GPU; and nothing may be allocated or loaded during a capture. Also the messages
 * about a failing kernel: CUDA's own words wherever the error appears, and with
 * LLS_CUDA_DEBUG the operation's name.
 */
#include "t/kernel/pair_attention.h"

#include <errno.h>
#include <pthread.h>

unsigned simt_contexts(void);
void simt_gpus(int n, int reach_each_other);
void simt_fault_after(long kernels);

/* ---- the right GPU ----------------------------------------------------------------- */

typedef void (*entry)(struct lls_device *);

static void memory(struct lls_device *d)
{
  size_t total, available;
  assert_int_equal(d->ops->memory(d, &total, &available), 0);
}

static void buffers(struct lls_device *d)
{
  void *data;
  for (int pinned = 0; pinned < 2; pinned++) {
    enum lls_memory kind = pinned ? LLS_MEMORY_PINNED : LLS_MEMORY_DEVICE;
    assert_int_equal(d->ops->alloc(d, kind, 100, &data), 0);
    d->ops->release(d, kind, data);
  }
}

static void weights(struct lls_device *d)
{
  static const float numbers[16] = {1, 2, 3};
  const struct lls_tensor_view view = view_of(numbers, 4, 4);
  struct lls_weight *weight[2];
  for (int i = 0; i < 2; i++)
    assert_int_equal(
        d->ops->weight_create(d, &view, NULL, 1, LLS_WEIGHTS_F32, &weight[i], NULL), 0);
  struct lls_experts *experts;
  assert_int_equal(d->ops->experts_create(d, &weight[1], 1, &experts, NULL), 0);
  d->ops->weight_destroy(d, weight[0]);
  d->ops->experts_destroy(d, experts);
}

static void vectors(struct lls_device *d)
{
  static const float numbers[4] = {1, 2, 3};
  const struct lls_tensor_view view = view_of(numbers, 1, 4);
  float *vector;
  void *table;
  assert_int_equal(d->ops->vector_create(d, &view, &vector, NULL), 0);
  assert_int_equal(d->ops->table_create(d, &view, &table, NULL), 0);
  d->ops->table_destroy(d, table);
  pair_release(d, vector);
}

static const struct lls_pool_shape pool_shape = {.layers = 1,
                                                 .kv_heads = 1,
                                                 .head_dim = 64,
                                                 .block_tokens = 16,
                                                 .element = LLS_F32,
                                                 .device_units = 32,
                                                 .host_units = 32,
                                                 .int8 = LLS_INT8_ALL};

static void pools(struct lls_device *d)
{
  const struct lls_copy copy = {.target_tier = LLS_TIER_HOST, .n_slots = 16};
  struct lls_pool *pool;
  assert_int_equal(d->ops->pool_create(d, &pool_shape, &pool, NULL), 0);
  assert_int_equal(d->ops->pool_copy(d, pool, &copy, 1), 0);
  pair_begin(d, (const int32_t[]){0}, 1);
  pair_end(d);
  d->ops->pool_destroy(d, pool);
}

static void steps(struct lls_device *d)
{
  static const float numbers[4] = {1, 2, 3};
  pair_release(d, pair_put(d, numbers, 1, 4));
}

static void destroy(struct lls_device *d)
{
  d->ops->destroy(d);
}

struct call {
  struct lls_device *device;
  entry function;
};

static void *other_thread(void *arg)
{
  const struct call *call = arg;
  call->function(call->device);
  return NULL;
}

static void test_gpu_of_each_entry(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    entry function;
  } entries[] = {{"memory", memory},   {"buffers", buffers}, {"weights", weights},
                 {"vectors", vectors}, {"pools", pools},     {"steps", steps},
                 {"destroy", destroy}};
  struct lls_device_options options = pair_options(LLS_F32, 256);
  struct lls_device *device;
  struct lls_error err = {""};
  options.index = 1;
  simt_gpus(2, 0);
  if (lls_device_module.create(&options, &device, &err) < 0)
    fail_msg("%s", err.text);
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    struct call call = {device, entries[i].function};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &call), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (simt_contexts() != 2)
      fail_msg("%s: GPUs used are %#x, not the second alone", entries[i].name,
               simt_contexts());
  }
  simt_gpus(1, 0);
}

/* ---- capture ----------------------------------------------------------------------- */

/* The first graph of a process contains only kernels that the run before it loaded. */
static void decodes(const struct pair *p)
{
  const struct pair_shape shape = {.kv_heads = 2,
                                   .group = 2,
                                   .head_dim = 64,
                                   .block_tokens = 16,
                                   .element = p->numbers};
  pair_decode_repeatedly(p, &shape);
}

static void test_capture(void **state)
{
  (void)state;
  each_pair(LLS_BF16, PAIR_COLUMNS, decodes);
}

/* ---- a kernel that fails ----------------------------------------------------------- */

#define FAULT "a fault that was asked for"

static struct lls_device *open_device(void)
{
  const struct lls_device_options options = pair_options(LLS_F32, 256);
  struct lls_device *device;
  struct lls_error err = {""};
  if (lls_device_module.create(&options, &device, &err) < 0)
    fail_msg("%s", err.text);
  return device;
}

/* A step of three kernels, the second of which fails. */
static void failing_step(struct lls_device *d, struct lls_error *err)
{
  static const float numbers[4] = {1, 2, 3};
  void *x = pair_put(d, numbers, 1, 4), *y = pair_put(d, numbers, 1, 4);
  simt_fault_after(1);
  pair_begin(d, (const int32_t[]){0}, 1);
  d->ops->add(d, x, 1, 4, y);
  d->ops->activate(d, LLS_ACT_RELU, y, 1, 4);
  d->ops->add(d, x, 1, 4, y);
  assert_int_equal(d->ops->step_end(d, err), -EIO);
  pair_release(d, x);
  pair_release(d, y);
}

static void test_name_of_the_kernel(void **state)
{
  (void)state;
  for (int debug = 0; debug < 2; debug++) {
    struct lls_error err = {""};
    setenv("LLS_CUDA_DEBUG", debug ? "1" : "0", 1);
    struct lls_device *d = open_device();
    failing_step(d, &err);
    assert_string_equal(err.text,
                        debug ? "CUDA, activation: " FAULT : "CUDA, the step: " FAULT);
    simt_fault_after(-1);
    d->ops->destroy(d);
  }
  unsetenv("LLS_CUDA_DEBUG");
}

/* Nothing is captured while errors are looked for. */
static void test_debug_without_graphs(void **state)
{
  (void)state;
  const struct pair_shape shape = {
      .kv_heads = 1, .group = 1, .head_dim = 64, .block_tokens = 16, .element = LLS_F32};
  struct pair p = {.numbers = LLS_F32};
  const struct lls_device_options options = pair_options(LLS_F32, PAIR_COLUMNS);
  setenv("LLS_CUDA_DEBUG", "1", 1);
  assert_int_equal(lls_device_module.create(&options, &p.cuda, NULL), 0);
  struct pair_batch *b = pair_batch_open(&p, &shape);
  struct pair_place place = pair_place_open(b, p.cuda);
  float *out = malloc(PAIR_ROWS * sizeof *out * b->heads.out_columns);
  unsigned before = simt_graph_launches();
  pair_batch_add(b, 20, 1, true);
  for (int i = 0; i < 4; i++)
    pair_batch_run(b, &place, out);
  assert_int_equal(simt_graph_launches(), before);
  free(out);
  pair_place_close(&place);
  pair_batch_close(b);
  p.cuda->ops->destroy(p.cuda);
  unsetenv("LLS_CUDA_DEBUG");
}

/* Errors of calls that only return a number, after the GPU was lost. */
static void test_refusals(void **state)
{
  (void)state;
  static const struct lls_copy copy = {.target_tier = LLS_TIER_HOST, .n_slots = 16},
                               outside = {.source = 99, .n_slots = 16};
  const struct lls_device_step step = {.n_rows = 1};
  struct lls_error err = {""};
  struct lls_device *d = open_device();
  struct lls_pool *pool;
  assert_int_equal(d->ops->pool_create(d, &pool_shape, &pool, NULL), 0);
  assert_int_equal(d->ops->pool_copy(d, pool, &copy, 1), 0);
  assert_string_equal(d->ops->refusal(d), "");
  failing_step(d, &err);
  assert_int_equal(d->ops->step_begin(d, NULL, &step), -EIO);
  assert_string_equal(d->ops->refusal(d), "CUDA, the inputs of a step: " FAULT);
  assert_int_equal(d->ops->pool_copy(d, pool, &outside, 1), -EINVAL);
  assert_string_equal(d->ops->refusal(d), ""); /* no message of the previous call */
  simt_fault_after(-1);
  d->ops->pool_destroy(d, pool);
  d->ops->destroy(d);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_capture),
      cmocka_unit_test(test_gpu_of_each_entry),
      cmocka_unit_test(test_name_of_the_kernel),
      cmocka_unit_test(test_debug_without_graphs),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
