/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the CUDA device with the CPU's: the same operation on the same random
 * numbers, once on the emulator (t/simt) and once on a GPU, if device_cuda.so is built
 * and finds one; otherwise the test reports that it did not. With LLS_GPU_ONLY only the
 * GPU is used, and its absence is a failure.
 *
 * Values are sent to a device as a table that `embed` reads, and come back by
 * `download`: the vtable has no other way.
 */
#ifndef LLS_KERNEL_PAIR_H
#define LLS_KERNEL_PAIR_H

#include "t/kernel/block_lists.h"

#include "core/device/devices.h"
#include "core/device/numbers.h"
#include "kernels/cpu/device.h"
#include "kernels/builtin.h"

#ifndef PAIR_ROWS
#define PAIR_ROWS 256 /* most rows of a step */
#endif

struct pair {
  struct lls_device *cpu, *cuda;
  enum lls_dtype numbers; /* type of the CUDA device's activations; the CPU's are f32 */
  bool on_gpu;
};

extern const struct lls_device_module lls_device_module; /* the emulated one */

static inline struct lls_device_options pair_options(enum lls_dtype numbers,
                                                     uint32_t max_columns)
{
  return (struct lls_device_options){
      .threads = 1,
      .max_rows = PAIR_ROWS,
      .max_columns = max_columns,
      .max_sequences = PAIR_ROWS,
      .numbers = numbers,
  };
}

/* Calls a test with the emulated device, then with a GPU's. */
static inline void each_pair(enum lls_dtype numbers, uint32_t max_columns,
                             void (*test)(const struct pair *))
{
  const struct lls_device_options options = pair_options(numbers, max_columns);
  struct lls_error err = {""};
  bool gpu_only = getenv("LLS_GPU_ONLY") != NULL;
  for (int gpu = gpu_only; gpu < 2; gpu++) {
    struct pair p = {.numbers = numbers, .on_gpu = gpu == 1};
    int rc = gpu ? lls_device_create(LLS_DEVICE_CUDA, &lls_builtin_devices, &options,
                                     &p.cuda, NULL, &err)
                 : lls_device_module.create(&options, &p.cuda, &err);
    if (rc < 0 && gpu && !gpu_only) {
      print_message("# not on a GPU: %s\n", err.text);
      return;
    }
    if (rc < 0 || lls_cpu_device_create(&options, &p.cpu, &err) < 0)
      fail_msg("%s", err.text);
    test(&p);
    p.cuda->ops->destroy(p.cuda);
    p.cpu->ops->destroy(p.cpu);
  }
}

static inline void pair_end(struct lls_device *device)
{
  struct lls_error err = {""};
  int rc = device->ops->step_end(device, &err);
  if (rc != 0)
    fail_msg("%s: %s", device->ops->name, lls_error_text(&err, rc));
}

/* Begins a step of n rows without sequences. */
static inline void pair_begin(struct lls_device *device, const int32_t *tokens,
                              uint32_t n)
{
  static struct lls_device_step step;
  step = (struct lls_device_step){.n_rows = n, .tokens = tokens, .positions = tokens};
  assert_int_equal(device->ops->step_begin(device, NULL, &step), 0);
}

static inline struct lls_tensor_view view_of(const float *x, size_t rows, size_t columns)
{
  return (struct lls_tensor_view){.data = x,
                                  .dtype = LLS_F32,
                                  .rows = rows,
                                  .columns = columns,
                                  .row_stride = columns};
}

/* A buffer of the device, uninitialised; release(DEVICE) it. */
static inline void *pair_buffer(struct lls_device *device, size_t rows, size_t columns)
{
  void *buffer;
  size_t number = lls_dtype_bytes(device->activation_type);
  assert_int_equal(
      device->ops->alloc(device, LLS_MEMORY_DEVICE, rows * columns * number + 1, &buffer),
      0);
  return buffer;
}

static inline void pair_release(struct lls_device *device, void *buffer)
{
  device->ops->release(device, LLS_MEMORY_DEVICE, buffer);
}

/* Copies rows into the buffer. */
static inline void pair_fill(struct lls_device *device, const float *x, uint32_t n,
                             uint32_t columns, void *buffer)
{
  void *table;
  int32_t ids[PAIR_ROWS];
  const struct lls_tensor_view view = view_of(x, n, columns);
  assert_int_equal(device->ops->table_create(device, &view, &table, NULL), 0);
  for (uint32_t i = 0; i < n; i++)
    ids[i] = (int32_t)i;
  pair_begin(device, ids, n);
  device->ops->embed(device, table, 1, buffer);
  pair_end(device);
  device->ops->table_destroy(device, table);
}

/* Makes a buffer with these rows. */
static inline void *pair_put(struct lls_device *device, const float *x, uint32_t n,
                             uint32_t columns)
{
  void *buffer = pair_buffer(device, n, columns);
  pair_fill(device, x, n, columns, buffer);
  return buffer;
}

/* n activations as f32; between step_begin and step_end. */
static inline void pair_get(struct lls_device *device, const void *buffer, size_t n,
                            float *out)
{
  bool bf16 = device->activation_type == LLS_BF16;
  uint16_t *half = malloc(n * sizeof *half + 1);
  device->ops->download(device, buffer, bf16 ? (void *)half : (void *)out,
                        n * (bf16 ? sizeof *half : sizeof *out));
  for (size_t i = 0; i < n && bf16; i++)
    out[i] = lls_bf16_to_f32(half[i]);
  free(half);
}

/* Random values that the pair's CUDA device represents exactly. */
static inline float *pair_random(const struct pair *p, size_t n, float (*random)(void))
{
  float *x = malloc(n * sizeof *x + 1);
  for (size_t i = 0; i < n; i++) {
    x[i] = random();
    if (p->numbers == LLS_BF16)
      x[i] = lls_bf16_to_f32(lls_f32_to_bf16(x[i]));
  }
  return x;
}

/* The relative rounding error of results in the device's type. */
static inline double pair_epsilon(const struct pair *p)
{
  return p->numbers == LLS_BF16 ? 0x1p-8 : 4e-6;
}

/* ---- what attention is asked for --------------------------------------------------- */

/* A model's heads. */
struct pair_heads {
  struct lls_attention_shape attention;
  struct lls_rope_shape rope;
  float frequency[128];
  uint32_t columns, out_columns; /* columns of q, k, v; columns of the result */
};

/* Must not be moved afterwards: rope points into it. */
static inline void pair_heads_init(struct pair_heads *h, uint32_t heads,
                                   uint32_t kv_heads, uint32_t head_dim, uint32_t rotary)
{
  h->attention = (struct lls_attention_shape){
      .heads = heads,
      .kv_heads = kv_heads,
      .head_dim = head_dim,
      .scale = 1 / sqrtf((float)head_dim),
  };
  for (uint32_t i = 0; i < rotary / 2; i++)
    h->frequency[i] = powf(10000, -2.0f * (float)i / (float)rotary);
  h->rope = (struct lls_rope_shape){
      .head_dim = head_dim,
      .rotary_dims = rotary,
      .inverse_frequency = h->frequency,
      .attention_factor = 1.25f,
  };
  h->columns = (heads + 2 * kv_heads) * head_dim;
  h->out_columns = heads * head_dim;
}

/* Rows of sequences in one step, and their q, k, v. */
struct pair_step {
  struct lls_device_step step;
  struct lls_step_sequence sequences[8];
  uint32_t row_sequence[PAIR_ROWS];
  int32_t positions[PAIR_ROWS];
  uint32_t columns;
  float *rows; /* (PAIR_ROWS, columns) */
};

static inline void pair_step_open(struct pair_step *s, uint32_t columns)
{
  s->columns = columns;
  s->rows = malloc(PAIR_ROWS * (size_t)columns * sizeof *s->rows);
  s->step = (struct lls_device_step){
      .positions = s->positions, .sequence = s->row_sequence, .sequences = s->sequences};
}

static inline void pair_step_close(struct pair_step *s)
{
  free(s->rows);
}

/* Adds n rows of a sequence after `context` cached tokens; the caller sets its other
 * members. */
static inline struct lls_step_sequence *pair_step_add(struct pair_step *s,
                                                      const struct lls_step_list *list,
                                                      uint32_t context, uint32_t n,
                                                      const float *rows)
{
  uint32_t sequence = s->step.n_sequences++, first = s->step.n_rows;
  assert_true(sequence < 8 && first + n <= PAIR_ROWS);
  for (uint32_t i = 0; i < n; i++) {
    s->row_sequence[first + i] = sequence;
    s->positions[first + i] = (int32_t)(context + i);
  }
  memcpy(s->rows + (size_t)first * s->columns, rows,
         (size_t)n * s->columns * sizeof *rows);
  s->step.n_rows += n;
  s->sequences[sequence] = (struct lls_step_sequence){
      .kv = *list, .first_row = first, .n_rows = n, .context = context};
  return &s->sequences[sequence];
}

/* ---- results ----------------------------------------------------------------------- */

/* Checks |got - wanted| <= relative |wanted| + absolute for each of n values. */
static inline void pair_compare(const struct pair *p, const char *what, const float *got,
                                const float *wanted, size_t n, double relative,
                                double absolute)
{
  for (size_t i = 0; i < n; i++) {
    double limit = relative * fabs((double)wanted[i]) + absolute;
    if (!(fabs((double)got[i] - (double)wanted[i]) <= limit))
      fail_msg("%s, %s%s: [%zu] is %.9g, on the CPU %.9g (+- %.2g)", what,
               p->numbers == LLS_BF16 ? "bf16" : "f32", p->on_gpu ? " on a GPU" : "", i,
               (double)got[i], (double)wanted[i], limit);
  }
}

#endif
