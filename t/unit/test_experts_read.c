/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step of few rows reads the experts that its rows have chosen and no others: the
 * memory of all others is made unreadable, so that a read ends the test by a signal. In
 * every format of weights, at every ISA level of this CPU.
 */
#include "t/quantised_data.h"
#include "t/tap.h"

#include "core/device/device.h"
#include "core/device/isa.h"
#include "core/device/quantised.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/linear.h"

#include <string.h>
#include <sys/mman.h>

#define EXPERTS 8
#define ACTIVE  2
#define OUTPUTS 40 /* two panels and a half */
#define INPUTS  512
#define ROWS    3

/* Types of files, and what their weights can be turned into at load: each format that a
 * panel can have. */
static const struct {
  enum lls_dtype dtype;
  enum lls_weight_format format;
} formats[] = {
    {LLS_F32, LLS_WEIGHTS_AUTO},    {LLS_F16, LLS_WEIGHTS_AUTO},
    {LLS_BF16, LLS_WEIGHTS_AUTO},   {LLS_BF16, LLS_WEIGHTS_INT8},
    {LLS_BF16, LLS_WEIGHTS_INT4},   {LLS_Q8_0, LLS_WEIGHTS_AUTO},
    {LLS_Q4_0, LLS_WEIGHTS_AUTO},   {LLS_Q4_1, LLS_WEIGHTS_AUTO},
    {LLS_Q5_0, LLS_WEIGHTS_AUTO},   {LLS_Q5_1, LLS_WEIGHTS_AUTO},
    {LLS_Q4_K, LLS_WEIGHTS_AUTO},   {LLS_Q5_K, LLS_WEIGHTS_AUTO},
    {LLS_Q6_K, LLS_WEIGHTS_AUTO},   {LLS_MXFP4, LLS_WEIGHTS_AUTO},
    {LLS_Q2_K, LLS_WEIGHTS_AUTO},   {LLS_Q3_K, LLS_WEIGHTS_AUTO},
    {LLS_IQ2_S, LLS_WEIGHTS_AUTO},  {LLS_IQ3_S, LLS_WEIGHTS_AUTO},
    {LLS_IQ4_XS, LLS_WEIGHTS_AUTO}, {LLS_IQ4_NL, LLS_WEIGHTS_AUTO},
    {LLS_IQ1_S, LLS_WEIGHTS_AUTO},
};
#define N_FORMATS (sizeof formats / sizeof *formats)

static uint32_t random_state = 1;

static uint32_t random_bits(void)
{
  random_state = random_state * 1664525 + 1013904223;
  return random_state >> 8;
}

/* Rows of small numbers, or of blocks with a scale of 0.01. */
static void fill(enum lls_dtype type, uint8_t *data)
{
  const size_t n = (size_t)OUTPUTS * INPUTS;
  if (!lls_dtype_is_quantised(type)) {
    for (size_t i = 0; i < n; i++) {
      float x = (float)(random_bits() % 201) * 0.01f - 1;
      uint16_t half = type == LLS_F16 ? lls_f32_to_f16(x) : lls_f32_to_bf16(x);
      if (type == LLS_F32)
        memcpy(data + i * sizeof x, &x, sizeof x);
      else
        memcpy(data + i * sizeof half, &half, sizeof half);
    }
    return;
  }
  const size_t bytes = OUTPUTS * lls_dtype_row_bytes(type, INPUTS);
  for (size_t i = 0; i < bytes; i++)
    data[i] = (uint8_t)random_bits();
  for (size_t i = 0; i < bytes; i += lls_dtype_row_bytes(type, lls_dtype_block(type)))
    set_step(type, data + i, 0.01f);
}

struct mixture {
  struct lls_device *device;
  struct lls_weight *weights[EXPERTS]; /* owned by `experts` */
  struct lls_experts *experts;
  struct lls_route route;
  uint32_t expert[ROWS * ACTIVE], place[ROWS * ACTIVE], row[ROWS * ACTIVE];
  uint32_t first[EXPERTS + 1];
  float weight[ROWS * ACTIVE];
};

static void create(struct mixture *m, const char *isa, size_t format)
{
  const struct lls_device_options options = {.threads = 2,
                                             .max_rows = ROWS * ACTIVE,
                                             .max_columns = INPUTS,
                                             .max_sequences = 1,
                                             .isa = isa};
  struct lls_error err;
  if (lls_cpu_device_create(&options, &m->device, &err) != 0)
    skip_because("this CPU has no %s", isa);
  uint8_t *data = malloc((size_t)OUTPUTS * INPUTS * sizeof(float));
  const struct lls_tensor_view view = {.data = data,
                                       .dtype = formats[format].dtype,
                                       .rows = OUTPUTS,
                                       .columns = INPUTS,
                                       .row_stride = INPUTS};
  for (size_t e = 0; e < EXPERTS; e++) {
    fill(view.dtype, data);
    assert_int_equal(m->device->ops->weight_create(m->device, &view, NULL, 1,
                                                   formats[format].format, &m->weights[e],
                                                   &err),
                     0);
  }
  free(data);
  assert_int_equal(
      m->device->ops->experts_create(m->device, m->weights, EXPERTS, &m->experts, &err),
      0);
  m->route = (struct lls_route){.experts = EXPERTS,
                                .active = ACTIVE,
                                .expert = m->expert,
                                .weight = m->weight,
                                .place = m->place,
                                .row = m->row,
                                .first = m->first};
}

static void destroy(struct mixture *m)
{
  m->device->ops->experts_destroy(m->device, m->experts);
  m->device->ops->destroy(m->device);
}

/* Row r chooses experts r and r + 3 of this list. */
static const uint32_t chosen[ROWS + 3] = {1, 4, 6, 4, 6, 1};

static void choose(struct mixture *m, uint32_t n_rows)
{
  float scores[ROWS * EXPERTS] = {0};
  for (uint32_t r = 0; r < n_rows; r++) {
    scores[r * EXPERTS + chosen[r]] = 2;
    scores[r * EXPERTS + chosen[r + 3]] = 1;
  }
  m->device->ops->route(m->device, scores, n_rows, true, &m->route);
}

static void multiply(struct mixture *m, uint32_t n_rows, const float *x, float *y)
{
  static float sorted[ROWS * ACTIVE * INPUTS], out[ROWS * ACTIVE * OUTPUTS];
  choose(m, n_rows);
  m->device->ops->gather_routed(m->device, &m->route, x, n_rows, INPUTS, sorted);
  m->device->ops->linear_experts(m->device, m->experts, &m->route, sorted, n_rows, out);
  m->device->ops->combine(m->device, &m->route, out, n_rows, OUTPUTS, LLS_STORE_SET, y);
}

/* Takes the right to read from the panels, or gives it back. Each matrix is a mapping of
 * its own, which begins at a page (kernels/cpu/memory.c). */
static void protect(const struct lls_weight *w, int rights)
{
  for (; w != NULL; w = w->next)
    assert_int_equal(mprotect(w->data, (w->bytes + 4095) & ~(size_t)4095, rights), 0);
}

static void check_rows(struct mixture *m, uint32_t n_rows)
{
  float x[ROWS * INPUTS], all[ROWS * OUTPUTS], some[ROWS * OUTPUTS];
  bool is_chosen[EXPERTS] = {false};
  for (size_t i = 0; i < n_rows * INPUTS; i++)
    x[i] = (float)(random_bits() % 201) * 0.01f - 1;
  multiply(m, n_rows, x, all);
  for (uint32_t i = 0; i < n_rows * ACTIVE; i++)
    is_chosen[m->expert[i]] = true;
  for (size_t e = 0; e < EXPERTS; e++)
    protect(m->weights[e], is_chosen[e] ? PROT_READ : PROT_NONE);
  multiply(m, n_rows, x, some);
  for (size_t e = 0; e < EXPERTS; e++)
    protect(m->weights[e], PROT_READ | PROT_WRITE);
  assert_memory_equal(some, all, n_rows * OUTPUTS * sizeof *some);
}

static void test_few_rows_read_the_chosen_experts_only(void **state)
{
  for (size_t f = 0; f < N_FORMATS; f++) {
    struct mixture m;
    create(&m, *state, f);
    for (uint32_t n_rows = 1; n_rows <= ROWS; n_rows++)
      check_rows(&m, n_rows);
    destroy(&m);
  }
}

/* Formats that a panel is only expanded to have no weights. */
static bool is_stored(enum lls_packed packed)
{
  return packed <= LLS_PACKED_LIST3_SHORT;
}

static void test_every_format_of_panels_is_among_them(void **state)
{
  bool seen[LLS_N_PACKED] = {false};
  (void)state;
  for (size_t f = 0; f < N_FORMATS; f++) {
    struct mixture m;
    create(&m, "generic", f);
    seen[m.weights[0]->packed] = true;
    destroy(&m);
  }
  for (enum lls_packed p = 0; p < LLS_N_PACKED; p++)
    if (is_stored(p) && !seen[p])
      fail_msg("no weight was packed as format %d", (int)p);
}

int main(void)
{
#define LEVEL(name)                                                                      \
  {"few rows read the chosen experts only, " #name,                                      \
   test_few_rows_read_the_chosen_experts_only, NULL, NULL, (void *)#name},
  const struct CMUnitTest tests[] = {
      LLS_ISA_LEVELS(LEVEL, LEVEL)
          cmocka_unit_test(test_every_format_of_panels_is_among_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
