/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Algorithms chosen by timing (kernels/cuda/algorithms.c), with an emulated cuBLASLt
 * that defines each algorithm's time: which one is chosen, which weights are used for
 * timing, when the heuristic's first is kept, that timing ends, and that only prepared
 * steps time anything. On a GPU: that algorithms are timed, and that the chosen ones
 * multiply correctly.
 */
#include "t/kernel/pair.h"

#include "t/drive.h"
#include "t/simt/include/cublasLt.h"
#include "kernels/builtin.h"

#define LAYERS  6 /* of 2 KiB each: three times the emulated L2 */
#define COLUMNS 32
#define ROWS    8

#define TAKES(US)                                                                        \
  {                                                                                      \
    .us = US, .us_from_l2 = US                                                           \
  } /* wherever the weights are */

struct layers {
  struct lls_device *device;
  struct lls_weight *weights[LAYERS];
  uint32_t n;
  float *x, *numbers;
  void *x_at, *y_at;
};

static void open_layers(struct layers *l, struct lls_device *device, uint32_t n)
{
  *l = (struct layers){.device = device, .n = n};
  const struct pair p = {.numbers = LLS_BF16};
  random_state = 5;
  l->numbers = pair_random(&p, (size_t)LAYERS * COLUMNS * COLUMNS, random_float);
  l->x = pair_random(&p, (size_t)ROWS * COLUMNS, random_float);
  for (uint32_t i = 0; i < n; i++) {
    const struct lls_tensor_view view =
        view_of(l->numbers + (size_t)i * COLUMNS * COLUMNS, COLUMNS, COLUMNS);
    assert_int_equal(device->ops->weight_create(device, &view, NULL, 1, LLS_WEIGHTS_BF16,
                                                &l->weights[i], NULL),
                     0);
  }
  l->x_at = pair_put(device, l->x, ROWS, COLUMNS);
  l->y_at = pair_buffer(device, ROWS, COLUMNS);
}

static void close_layers(struct layers *l)
{
  pair_release(l->device, l->x_at);
  pair_release(l->device, l->y_at);
  for (uint32_t i = 0; i < l->n; i++)
    l->device->ops->weight_destroy(l->device, l->weights[i]);
  free(l->x);
  free(l->numbers);
}

/* Runs a step; y: the last layer's result; NULL: a preparation step. */
static void step(const struct layers *l, float *y)
{
  const struct lls_device_ops *ops = l->device->ops;
  const struct lls_device_step s = {.n_rows = ROWS, .prepare = y == NULL};
  assert_int_equal(ops->step_begin(l->device, NULL, &s), 0);
  for (uint32_t i = 0; i < l->n; i++)
    ops->linear(l->device, l->weights[i], l->x_at, ROWS, LLS_STORE_SET, l->y_at);
  if (y != NULL)
    pair_get(l->device, l->y_at, ROWS * COLUMNS, y);
  pair_end(l->device);
}

static struct lls_device *create(void)
{
  const struct lls_device_options options = pair_options(LLS_BF16, 256);
  struct lls_device *device;
  assert_int_equal(lls_device_module.create(&options, &device, NULL), 0);
  return device;
}

static unsigned all_products(int n)
{
  unsigned sum = 0;
  for (int i = 0; i < n; i++)
    sum += simt_lt_products(i);
  return sum;
}

/* Returns the algorithm that a step uses for all its products. */
static int taken(const struct layers *l, int n)
{
  float y[ROWS * COLUMNS];
  unsigned before[16], all = all_products(n);
  for (int i = 0; i < n; i++)
    before[i] = simt_lt_products(i);
  step(l, y);
  assert_int_equal(all_products(n) - all, l->n);
  for (int i = 0; i < n; i++)
    if (simt_lt_products(i) - before[i] == l->n)
      return i;
  return -1;
}

/* Returns the algorithm, of those offered, used after a preparation step. */
static int chosen(const struct simt_lt_algorithm *offer, int n, uint32_t n_layers)
{
  struct layers l;
  simt_lt_offer(offer, n);
  open_layers(&l, create(), n_layers);
  step(&l, NULL);
  int index = taken(&l, n);
  close_layers(&l);
  l.device->ops->destroy(l.device);
  simt_lt_offer(NULL, 0);
  return index;
}

#define CHOSEN(...)                                                                      \
  chosen((const struct simt_lt_algorithm[]){__VA_ARGS__},                                \
         sizeof((const struct simt_lt_algorithm[]){__VA_ARGS__}) /                       \
             sizeof(struct simt_lt_algorithm),                                           \
         LAYERS)

static void test_fastest(void **state)
{
  (void)state;
  assert_int_equal(CHOSEN(TAKES(30), TAKES(20), TAKES(10), TAKES(15)), 2);
  assert_int_equal(CHOSEN(TAKES(10), TAKES(20)), 0);
}

/* An algorithm that is fast with weights in the L2 is not fast in a step. */
static void test_cold_weights(void **state)
{
  (void)state;
  assert_int_equal(CHOSEN(TAKES(40), {.us = 30, .us_from_l2 = 5}, TAKES(20)), 2);
}

/* Differences that the next start could not reproduce do not matter. */
static void test_ties(void **state)
{
  (void)state;
  assert_int_equal(CHOSEN(TAKES(100), TAKES(98)), 0);
  assert_int_equal(CHOSEN(TAKES(100), TAKES(96)), 1);
  assert_int_equal(CHOSEN(TAKES(100), TAKES(91), TAKES(90)), 1);
}

static void test_failures(void **state)
{
  (void)state;
  assert_int_equal(CHOSEN(TAKES(50), {.us = 1, .us_from_l2 = 1, .fails = 1}, TAKES(20)),
                   2);
  assert_int_equal(CHOSEN({.us = 1, .us_from_l2 = 1, .fails = 1}, TAKES(50), TAKES(40)),
                   2);
}

/* Small weights, all or half of which fit in the L2, are never read from memory. */
static void test_small_weights(void **state)
{
  static const struct simt_lt_algorithm offer[] = {TAKES(30), TAKES(10)};
  (void)state;
  assert_int_equal(chosen(offer, 2, 3), 0);
  assert_int_equal(chosen(offer, 2, 4), 1);
}

static void test_environment(void **state)
{
  (void)state;
  assert_int_equal(setenv("LLS_CUDA_ALGORITHMS", "first", 1), 0);
  struct lls_device *device = create();
  assert_false(device->prepares);
  device->ops->destroy(device);
  assert_int_equal(CHOSEN(TAKES(30), TAKES(10)), 0);
  assert_int_equal(setenv("LLS_CUDA_ALGORITHMS", "timed", 1), 0);
  device = create();
  assert_true(device->prepares);
  device->ops->destroy(device);
  assert_int_equal(CHOSEN(TAKES(30), TAKES(10)), 1);
  assert_int_equal(unsetenv("LLS_CUDA_ALGORITHMS"), 0);
}

/* Steps without preparation use the first algorithm, and a shape is timed once. */
static void test_once(void **state)
{
  static const struct simt_lt_algorithm offer[] = {TAKES(30), TAKES(10)};
  struct layers l;
  char text[160];
  (void)state;
  simt_lt_offer(offer, 2);
  open_layers(&l, create(), LAYERS);
  assert_int_equal(taken(&l, 2), 0);
  assert_false(l.device->ops->chosen(l.device, 0, text, sizeof text));
  step(&l, NULL);
  unsigned after = all_products(2);
  step(&l, NULL);
  assert_int_equal(all_products(2), after);
  assert_int_equal(taken(&l, 2), 1);
  assert_true(l.device->ops->chosen(l.device, 0, text, sizeof text));
  assert_string_equal(text, "32 x 32, 8 rows: algorithm 2 of cuBLASLt's 2 takes 10.0 us, "
                            "its first 30.0");
  assert_false(l.device->ops->chosen(l.device, 1, text, sizeof text));
  close_layers(&l);
  l.device->ops->destroy(l.device);
  simt_lt_offer(NULL, 0);
}

/* With more shapes than are kept the timed choices are still known. */
static void test_many_shapes(void **state)
{
  static const struct simt_lt_algorithm offer[] = {TAKES(30), TAKES(10)};
  static const float numbers[64 * 8];
  struct layers l;
  (void)state;
  simt_lt_offer(offer, 2);
  open_layers(&l, create(), LAYERS);
  const struct lls_device_ops *ops = l.device->ops;
  step(&l, NULL);
  for (uint32_t outputs = 8; outputs < 40; outputs++) {
    const struct lls_tensor_view view = view_of(numbers, outputs, 8);
    struct lls_weight *w;
    assert_int_equal(
        ops->weight_create(l.device, &view, NULL, 1, LLS_WEIGHTS_BF16, &w, NULL), 0);
    void *x = pair_buffer(l.device, PAIR_ROWS, 8),
         *y = pair_buffer(l.device, PAIR_ROWS, 64);
    const struct lls_device_step s = {.n_rows = PAIR_ROWS};
    assert_int_equal(ops->step_begin(l.device, NULL, &s), 0);
    for (uint32_t n = 8; n <= 160; n += 8)
      ops->linear(l.device, w, x, n, LLS_STORE_SET, y);
    pair_end(l.device);
    ops->weight_destroy(l.device, w);
    pair_release(l.device, x);
    pair_release(l.device, y);
  }
  assert_int_equal(taken(&l, 2), 1);
  close_layers(&l);
  ops->destroy(l.device);
  simt_lt_offer(NULL, 0);
}

/* 30 ms for rounds: two of 20, after two products of each. */
static void test_time_of_a_shape(void **state)
{
  static const struct simt_lt_algorithm offer[] = {TAKES(20000), TAKES(20000),
                                                   TAKES(10000), TAKES(10000)};
  struct layers l;
  (void)state;
  simt_lt_offer(offer, 4);
  open_layers(&l, create(), LAYERS);
  step(&l, NULL);
  assert_int_equal(all_products(4), 2 * 4 + 2);
  assert_int_equal(taken(&l, 4), 0);
  close_layers(&l);
  l.device->ops->destroy(l.device);
  simt_lt_offer(NULL, 0);
}

/* Three seconds for all shapes. */
static void test_time_of_all(void **state)
{
  static const struct simt_lt_algorithm slow = {
      .us = 200, .us_from_l2 = 200, .sleep_us = 700000};
  const struct simt_lt_algorithm offer[] = {
      slow, slow, slow, {.us = 1, .us_from_l2 = 1, .sleep_us = 700000}};
  (void)state;
  simt_lt_offer(offer, 4);
  struct layers l;
  open_layers(&l, create(), LAYERS);
  step(&l, NULL);
  unsigned spent = all_products(4);
  assert_in_range(spent, 4, 6);
  const struct lls_device_step s = {.n_rows = ROWS, .prepare = true};
  assert_int_equal(l.device->ops->step_begin(l.device, NULL, &s), 0);
  for (uint32_t i = 0; i < l.n; i++) /* another shape */
    l.device->ops->linear(l.device, l.weights[i], l.x_at, ROWS, LLS_STORE_ADD, l.y_at);
  pair_end(l.device);
  assert_int_equal(all_products(4), spent);
  close_layers(&l);
  l.device->ops->destroy(l.device);
  simt_lt_offer(NULL, 0);
}

/* ---- results ----------------------------------------------------------------------- */

static void check_results(const struct pair *p)
{
  struct layers l;
  float y[ROWS * COLUMNS], wanted[ROWS * COLUMNS];
  open_layers(&l, p->cuda, LAYERS);
  step(&l, NULL);
  step(&l, y);
  for (uint32_t row = 0; row < ROWS; row++)
    for (uint32_t k = 0; k < COLUMNS; k++) {
      const float *w = l.numbers + ((size_t)(LAYERS - 1) * COLUMNS + k) * COLUMNS;
      double sum = 0;
      for (uint32_t i = 0; i < COLUMNS; i++)
        sum += (double)w[i] * (double)l.x[row * COLUMNS + i];
      wanted[row * COLUMNS + k] = (float)sum;
    }
  pair_compare(p, "products of a chosen algorithm", y, wanted, ROWS * COLUMNS,
               pair_epsilon(p), 1e-5);
  close_layers(&l);
}

static void test_results(void **state)
{
  static const struct simt_lt_algorithm offer[] = {TAKES(30), TAKES(10)};
  (void)state;
  simt_lt_offer(offer, 2);
  each_pair(LLS_BF16, 256, check_results);
  simt_lt_offer(NULL, 0);
}

/* As large as a real layer's, so that a GPU times them. They must multiply like the
 * first algorithm, except for the order of sums. */
#define LARGE 4096

static void check_large(const struct pair *p)
{
  struct lls_weight *weights[8];
  struct lls_device *first;
  const struct lls_device_options options = pair_options(LLS_BF16, LARGE);
  float *y[2] = {malloc(ROWS * LARGE * sizeof(float)),
                 malloc(ROWS * LARGE * sizeof(float))};
  char text[160];
  if (!p->on_gpu)
    goto out;
  assert_int_equal(setenv("LLS_CUDA_ALGORITHMS", "first", 1), 0);
  assert_int_equal(lls_device_create(LLS_DEVICE_CUDA, &lls_builtin_devices, &options,
                                     &first, NULL, NULL),
                   0);
  assert_int_equal(unsetenv("LLS_CUDA_ALGORITHMS"), 0);
  const struct pair of = {.numbers = LLS_BF16};
  float *numbers = pair_random(&of, (size_t)ROWS * LARGE, random_float);
  void *x = pair_put(p->cuda, numbers, ROWS, LARGE);
  void *y_at = pair_buffer(p->cuda, ROWS, LARGE);
  for (uint32_t i = 0; i < 8; i++) {
    const struct lls_tensor_view view = {.dtype = LLS_BF16,
                                         .rows = LARGE,
                                         .columns = LARGE,
                                         .row_stride = LARGE,
                                         .seed = i};
    assert_int_equal(p->cuda->ops->weight_create(p->cuda, &view, NULL, 1,
                                                 LLS_WEIGHTS_BF16, &weights[i], NULL),
                     0);
  }
  for (int i = 0; i < 3; i++) { /* prepared, timed, first */
    struct lls_device *d = i < 2 ? p->cuda : first;
    const struct lls_device_step s = {.n_rows = ROWS, .prepare = i == 0};
    assert_int_equal(d->ops->step_begin(d, NULL, &s), 0);
    for (uint32_t k = 0; k < 8; k++)
      d->ops->linear(d, weights[k], x, ROWS, LLS_STORE_SET, y_at);
    if (i > 0)
      pair_get(d, y_at, ROWS * LARGE, y[i - 1]);
    pair_end(d);
  }
  assert_true(p->cuda->ops->chosen(p->cuda, 0, text, sizeof text));
  print_message("# %s\n", text);
  assert_non_null(strstr(text, " takes "));
  pair_compare(p, "products of a timed algorithm", y[0], y[1], ROWS * LARGE,
               2 * pair_epsilon(p), 1e-2);
  for (uint32_t i = 0; i < 8; i++)
    p->cuda->ops->weight_destroy(p->cuda, weights[i]);
  pair_release(p->cuda, x);
  pair_release(p->cuda, y_at);
  first->ops->destroy(first);
  free(numbers);
out:
  free(y[0]);
  free(y[1]);
}

static void test_large(void **state)
{
  (void)state;
  each_pair(LLS_BF16, LARGE, check_large);
}

/* ---- engines ----------------------------------------------------------------------- */

/* Decodes n sequences at once, in their own blocks. */
static void decode(struct drive_model *m, uint32_t n)
{
  static const struct lls_sampling greedy = {.top_p = 1, .repetition_penalty = 1};
  static const int32_t token = 1;
  struct lls_block_entry entries[ROWS];
  struct lls_group_list lists[ROWS];
  struct lls_block_table tables[ROWS];
  uint32_t units = lls_form_units(lls_engine_pool_shape(m->engine), LLS_FORM_KV);
  struct lls_engine_sequence sequences[ROWS];
  struct lls_engine_result result;
  struct lls_error err = {""};
  for (uint32_t i = 0; i < n; i++) {
    entries[i] = (struct lls_block_entry){.block = units * i, .count = 16};
    lists[i] = (struct lls_group_list){.entries = &entries[i], .n_entries = 1};
    tables[i] = (struct lls_block_table){.n_groups = 1, .lists = &lists[i]};
    sequences[i] = (struct lls_engine_sequence){
        .tokens = &token, .n_tokens = 1, .table = &tables[i], .sampling = &greedy};
  }
  const struct lls_engine_batch batch = {.n_sequences = n, .sequences = sequences};
  int rc = lls_engine_submit(m->engine, &batch, &err);
  if (rc == 0)
    rc = lls_engine_wait(m->engine, &result, &err);
  if (rc < 0)
    fail_msg("%s", lls_error_text(&err, rc));
}

/* After an engine's start its steps multiply with the chosen algorithms, and time
 * nothing. */
static void test_engine(void **state)
{
  static const struct simt_lt_algorithm offer[] = {TAKES(30), TAKES(10)};
  const struct drive_options options = {.weights = LLS_WEIGHTS_BF16,
                                        .cache_element = LLS_BF16,
                                        .create_device = lls_device_module.create};
  struct drive_model m = {0};
  (void)state;
  simt_lt_offer(offer, 2);
  drive_open(&m, "llama", &options);
  assert_true(simt_lt_products(0) > 0);
  unsigned first = simt_lt_products(0), second = simt_lt_products(1);
  for (uint32_t n = 2; n <= 4; n++)
    for (int turn = 0; turn < 3; turn++)
      decode(&m, n);
  assert_int_equal(simt_lt_products(0), first);
  /* q k v, output, gate and up, down of each layer, and the head */
  unsigned of_a_step = 4 * lls_engine_config(m.engine)->layers + 1;
  assert_int_equal(simt_lt_products(1) - second, 3 * 3 * of_a_step);
  drive_close(&m);
  simt_lt_offer(NULL, 0);
}

int main(void)
{
  const struct CMUnitTest emulated[] = {
      cmocka_unit_test(test_fastest),
      cmocka_unit_test(test_cold_weights),
      cmocka_unit_test(test_ties),
      cmocka_unit_test(test_failures),
      cmocka_unit_test(test_small_weights),
      cmocka_unit_test(test_environment),
      cmocka_unit_test(test_once),
      cmocka_unit_test(test_many_shapes),
      cmocka_unit_test(test_time_of_a_shape),
      cmocka_unit_test(test_time_of_all),
      cmocka_unit_test(test_results),
      cmocka_unit_test(test_engine),
  };
  const struct CMUnitTest on_gpu[] = {cmocka_unit_test(test_results),
                                      cmocka_unit_test(test_large)};
  return getenv("LLS_GPU_ONLY") != NULL ? cmocka_run_group_tests(on_gpu, NULL, NULL)
                                        : cmocka_run_group_tests(emulated, NULL, NULL);
}
