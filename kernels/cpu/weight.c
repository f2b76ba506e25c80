/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs matrices into panels (linear.h) once, while loading. Every thread converts its
 * own panels, a row at a time through f32. So loading needs no memory beyond the packed
 * matrix, and the thread that will read a huge page is the first to touch it.
 *
 * Formats: AUTO keeps the model's own type, so nothing is lost. f16 stays f16 in memory
 * and becomes f32 in registers; codes keep their bits (codes.c). Parts of different
 * types, such as q, k and v of Q4_K_M files, become a list of matrices.
 */
#include "core/device/numbers.h"
#include "core/device/quantised.h"
#include "core/device/tensor.h"
#include "kernels/cpu/codes_pack.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct packing {
  struct lls_cpu_device *device;
  struct lls_weight *weight;
  const struct lls_tensor_view *parts;
  size_t n_parts;
};

/* Packs one output's weights x (columns) into its panel, which must be zero there. */
static void pack_output(struct lls_weight *w, size_t output, const float *x)
{
  char *panel = w->data + output / LLS_PANEL * w->panel_bytes;
  size_t o = output % LLS_PANEL;
  switch (w->packed) {
  case LLS_PACKED_F32:
    for (size_t k = 0; k < w->columns; k++)
      ((float *)panel)[k * LLS_PANEL + o] = x[k];
    break;
  case LLS_PACKED_F16:
    for (size_t k = 0; k < w->columns; k++)
      ((uint16_t *)panel)[k * LLS_PANEL + o] = lls_f32_to_f16(x[k]);
    break;
  default:
    for (size_t k = 0; k < w->columns; k++)
      ((uint16_t *)panel)[(k / 2 * LLS_PANEL + o) * 2 + k % 2] = lls_f32_to_bf16(x[k]);
  }
}

static void pack_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct packing *p = arg;
  float *row = lls_cpu_scratch(p->device, thread);
  size_t begin, end, first = 0;
  lls_cpu_share(p->weight->rows, LLS_PANEL, thread, n_threads, &begin, &end);
  for (size_t i = 0; i < p->n_parts; first += p->parts[i++].rows) {
    size_t from = begin > first ? begin : first;
    for (size_t output = from; output < end && output < first + p->parts[i].rows;
         output++) {
      if (lls_packed_codes(p->weight->packed)) {
        if (!lls_codes_pack_directly(p->weight, output, &p->parts[i], output - first))
          lls_codes_pack(p->weight, output, &p->parts[i], output - first, row);
      } else {
        lls_tensor_read_row(&p->parts[i], output - first, row);
        pack_output(p->weight, output, row);
      }
    }
  }
}

/* Returns the format that one part is packed in. */
static enum lls_packed packed_as(const struct lls_tensor_view *part,
                                 enum lls_weight_format format)
{
  switch (format) {
  case LLS_WEIGHTS_F32:
    return LLS_PACKED_F32;
  case LLS_WEIGHTS_BF16:
    return LLS_PACKED_BF16;
  case LLS_WEIGHTS_INT8:
    return LLS_PACKED_CODES8;
  case LLS_WEIGHTS_INT4:
    return LLS_PACKED_CODES4;
  case LLS_WEIGHTS_AUTO:
    break;
  }
  if (lls_dtype_is_quantised(part->dtype))
    return lls_codes_packed(part);
  return part->dtype == LLS_BF16  ? LLS_PACKED_BF16
         : part->dtype == LLS_F16 ? LLS_PACKED_F16
                                  : LLS_PACKED_F32;
}

static int check_parts(const struct lls_cpu_device *d,
                       const struct lls_tensor_view *parts,
                       const struct lls_tensor_view *biases, size_t n_parts,
                       struct lls_error *err)
{
  for (size_t i = 0; i < n_parts; i++) {
    if (parts[i].rows == 0 || parts[i].columns == 0)
      return lls_fail(err, -EINVAL, "part %zu of a weight is empty", i);
    if (parts[i].columns != parts[0].columns)
      return lls_fail(err, -EINVAL,
                      "part %zu of a weight has %zu inputs, the first has %zu", i,
                      parts[i].columns, parts[0].columns);
    if (biases != NULL && biases[i].rows != 0 && biases[i].columns != parts[i].rows)
      return lls_fail(err, -EINVAL, "a weight of %zu outputs has a bias of %zu",
                      parts[i].rows, biases[i].columns);
  }
  if (n_parts == 0 || parts[0].columns > d->options.max_columns)
    return lls_fail(err, -EINVAL, "a weight has %zu inputs, the device was made for %u",
                    n_parts == 0 ? (size_t)0 : parts[0].columns, d->options.max_columns);
  return 0;
}

/* Allocates `rows` outputs in whole panels; scale and bias follow the panels. */
static int allocate(struct lls_weight *w, bool has_bias)
{
  size_t vector = w->panels * LLS_PANEL * sizeof(float);
  size_t panels = w->panels * w->panel_bytes;
  size_t vectors = lls_packed_codes(w->packed) + (size_t)has_bias;
  void *data;
  w->bytes = panels + vectors * vector;
  int rc = lls_cpu_memory_alloc(w->bytes, &data);
  if (rc != 0)
    return rc;
  w->data = data;
  if (lls_packed_codes(w->packed))
    w->scale = (float *)(w->data + panels);
  if (has_bias)
    w->bias = (float *)(w->data + w->bytes - vector);
  return 0;
}

static void read_biases(struct lls_weight *w, const struct lls_tensor_view *parts,
                        const struct lls_tensor_view *biases, size_t n_parts)
{
  size_t first = 0;
  for (size_t i = 0; i < n_parts; first += parts[i++].rows) {
    if (biases[i].rows != 0)
      lls_tensor_read_row(&biases[i], 0, w->bias + first);
  }
}

/* Makes one matrix of parts that have the same packed format. */
static int create_alike(struct lls_cpu_device *d, const struct lls_tensor_view *parts,
                        const struct lls_tensor_view *biases, size_t n_parts,
                        enum lls_packed packed, struct lls_weight **out,
                        struct lls_error *err)
{
  struct lls_weight *w = calloc(1, sizeof *w);
  if (w == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a weight");
  bool codes = lls_packed_codes(packed);
  size_t align = codes ? LLS_CODES_STEP : LLS_INPUT_ALIGN;
  w->packed = packed;
  w->columns = parts[0].columns;
  for (size_t i = 0; i < n_parts; i++)
    w->rows += parts[i].rows;
  w->panels = (w->rows + LLS_PANEL - 1) / LLS_PANEL;
  w->inputs = (w->columns + align - 1) / align * align;
  w->panel_bytes = codes ? lls_codes_at(packed, w->inputs)
                         : w->inputs * LLS_PANEL * lls_packed_bytes(packed);
  lls_codes_table(&parts[0], packed, w->table);
  int rc = allocate(w, biases != NULL);
  if (rc != 0) {
    lls_fail(err, rc, "no memory for a weight of %zu x %zu (%zu MB)", w->rows, w->columns,
             w->bytes >> 20);
    free(w);
    return rc;
  }
  struct packing p = {.device = d, .weight = w, .parts = parts, .n_parts = n_parts};
  lls_cpu_run(d->threads, pack_task, &p);
  if (biases != NULL)
    read_biases(w, parts, biases, n_parts);
  *out = w;
  return 0;
}

/* Can the second part be in the same matrix as the first? All outputs of a matrix share
 * one table. */
static bool alike(const struct lls_tensor_view *a, const struct lls_tensor_view *b,
                  enum lls_weight_format format)
{
  uint8_t tables[2][16];
  enum lls_packed packed = packed_as(a, format);
  lls_codes_table(a, packed, tables[0]);
  lls_codes_table(b, packed, tables[1]);
  bool listed = lls_packed_codes(packed) && lls_codes_listed(packed);
  return packed == packed_as(b, format) &&
         (!listed || memcmp(tables[0], tables[1], sizeof tables[0]) == 0);
}

int lls_cpu_weight_create(struct lls_device *device, const struct lls_tensor_view *parts,
                          const struct lls_tensor_view *biases, size_t n_parts,
                          enum lls_weight_format format, struct lls_weight **out,
                          struct lls_error *err)
{
  struct lls_cpu_device *d = lls_cpu(device);
  int rc = check_parts(d, parts, biases, n_parts, err);
  struct lls_weight *first = NULL, **last = &first;
  for (size_t i = 0, n; rc == 0 && i < n_parts; i += n) {
    for (n = 1; i + n < n_parts && alike(&parts[i], &parts[i + n], format);)
      n++;
    rc = create_alike(d, parts + i, biases != NULL ? biases + i : NULL, n,
                      packed_as(&parts[i], format), last, err);
    if (rc == 0)
      last = &(*last)->next;
  }
  if (rc != 0)
    lls_cpu_weight_destroy(device, first);
  else
    *out = first;
  return rc;
}

void lls_cpu_weight_destroy(struct lls_device *device, struct lls_weight *w)
{
  (void)device;
  for (struct lls_weight *next; w != NULL; w = next) {
    next = w->next;
    lls_cpu_memory_free(w->data);
    free(w);
  }
}

size_t lls_cpu_weight_bytes(const struct lls_weight *w)
{
  size_t bytes = 0;
  for (; w != NULL; w = w->next)
    bytes += w->bytes;
  return bytes;
}
