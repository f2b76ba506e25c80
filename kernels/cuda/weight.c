/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads weights to the device: rows are copied from the mapped file to one of two
 * pinned buffers while the other is being sent, and are converted to the activations'
 * type on the device. cuBLAS takes a row-major (outputs, inputs) matrix directly, so
 * nothing is rearranged. Codes stay codes (weight_codes.c) if activations are bf16.
 * Parts of different formats, such as q, k and v in Q4_K_M files, become a list of
 * weights.
 *
 * f16 models are kept in bf16 (three bits less of fraction): their activations can exceed
 * what f16 holds, and one type serves all kernels.
 */
#include "core/device/quantised.h"
#include "core/device/tensor.h"
#include "kernels/cuda/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A load in progress: values that go to consecutive places of one array. */
struct load {
  struct lls_cuda_device *device;
  enum lls_dtype to;
  char *target;
  size_t written;      /* values sent or being sent */
  enum lls_dtype type; /* type of the staged values */
  size_t staged;       /* values in the staging buffer */
  int rc;              /* the first cudaError_t */
};

static bool good(struct load *l, int rc)
{
  if (l->rc == 0)
    l->rc = rc;
  return l->rc == 0;
}

/* Sends the staged values. */
static void flush(struct load *l)
{
  struct lls_cuda_device *d = l->device;
  unsigned turn = d->staging_turn;
  char *to = l->target + l->written * lls_dtype_bytes(l->to);
  bool convert = l->type != l->to;
  char *first = convert ? d->unconverted[turn] : to;
  if (l->staged == 0 || l->rc != 0)
    return;
  good(l, cudaMemcpyAsync(first, d->staging[turn], l->staged * lls_dtype_bytes(l->type),
                          cudaMemcpyHostToDevice, d->stream));
  good(l, cudaEventRecord(d->staging_sent[turn], d->stream));
  if (convert)
    good(l, lls_cuda_run_convert(d->stream, l->type, first, l->to, to, l->staged));
  l->written += l->staged;
  l->staged = 0;
  d->staging_turn ^= 1;
  good(l, cudaEventSynchronize(d->staging_sent[d->staging_turn]));
}

static void load_run(struct load *l, const char *data, enum lls_dtype type, size_t n)
{
  size_t number = lls_dtype_bytes(type);
  if (type != l->type)
    flush(l);
  l->type = type;
  for (size_t done = 0, part; done < n && l->rc == 0; done += part) {
    size_t room = LLS_CUDA_STAGING / number - l->staged;
    part = n - done < room ? n - done : room;
    memcpy(l->device->staging[l->device->staging_turn] + l->staged * number,
           data + done * number, part * number);
    l->staged += part;
    if (part == room)
      flush(l);
  }
}

/* Loads codes as values: for tables, and if the device computes in f32. */
static void load_quantised(struct load *l, const struct lls_tensor_view *v)
{
  float *row = malloc(v->columns * sizeof *row);
  good(l, row != NULL ? 0 : (int)cudaErrorMemoryAllocation);
  for (size_t i = 0; i < v->rows && row != NULL; i++) {
    lls_tensor_read_row(v, i, row);
    load_run(l, (const char *)row, LLS_F32, v->columns);
  }
  free(row);
}

static void load_view(struct load *l, const struct lls_tensor_view *v)
{
  if (v->data == NULL) {
    flush(l);
    char *to = l->target + l->written * lls_dtype_bytes(l->to);
    size_t n = v->rows * v->columns;
    good(l, lls_cuda_run_fill(l->device->stream, v->seed, v->columns, v->row_stride,
                              l->to, to, n));
    l->written += n;
    return;
  }
  if (lls_dtype_is_quantised(v->dtype)) {
    load_quantised(l, v);
    return;
  }
  size_t stride = v->row_stride * lls_dtype_bytes(v->dtype);
  for (size_t row = 0; row < v->rows; row++)
    load_run(l, (const char *)v->data + row * stride, v->dtype, v->columns);
}

static void load_zeros(struct load *l, size_t n)
{
  flush(l);
  good(l, cudaMemsetAsync(l->target + l->written * lls_dtype_bytes(l->to), 0,
                          n * lls_dtype_bytes(l->to), l->device->stream));
  l->written += n;
}

/* Waits for the load; the views may be released after it. */
static int load_end(struct load *l, struct lls_error *err)
{
  flush(l);
  good(l, cudaStreamSynchronize(l->device->stream));
  return lls_cuda_check(l->rc, err, "loading weights");
}

/* ---- linear layers ----------------------------------------------------------------- */

static int check_parts(const struct lls_tensor_view *parts,
                       const struct lls_tensor_view *biases, size_t n_parts,
                       struct lls_error *err)
{
  if (n_parts == 0)
    return lls_fail(err, -EINVAL, "a weight has no parts");
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
  return 0;
}

static int load_bias(struct lls_cuda_device *d, enum lls_dtype to, void *target,
                     const struct lls_tensor_view *parts,
                     const struct lls_tensor_view *biases, size_t n,
                     struct lls_error *err)
{
  struct load l = {.device = d, .to = to, .target = target};
  for (size_t i = 0; i < n; i++) {
    if (biases[i].rows == 0)
      load_zeros(&l, parts[i].rows);
    else
      load_view(&l, &biases[i]);
  }
  return load_end(&l, err);
}

static int create_numbers(struct lls_cuda_device *d, struct lls_weight *w,
                          const struct lls_tensor_view *parts, size_t n,
                          struct lls_error *err)
{
  w->bytes = w->rows * w->columns * lls_dtype_bytes(lls_cuda_numbers(d));
  int rc = lls_cuda_malloc(w->bytes, &w->data);
  if (rc < 0)
    return lls_fail(err, rc, "no memory on the GPU for a weight of %zu x %zu (%zu MiB)",
                    w->rows, w->columns, w->bytes >> 20);
  struct load l = {.device = d, .to = lls_cuda_numbers(d), .target = w->data};
  for (size_t i = 0; i < n; i++)
    load_view(&l, &parts[i]);
  return load_end(&l, err);
}

static int create_bias(struct lls_cuda_device *d, struct lls_weight *w,
                       const struct lls_tensor_view *parts,
                       const struct lls_tensor_view *biases, size_t n,
                       struct lls_error *err)
{
  void *f32 = NULL;
  int rc = lls_cuda_malloc(w->rows * lls_dtype_bytes(lls_cuda_numbers(d)), &w->bias);
  if (rc == 0)
    rc = lls_cuda_malloc(w->rows * sizeof(float), &f32);
  w->bias_f32 = f32;
  w->codes.bias = f32;
  if (rc < 0)
    return lls_fail(err, rc, "no memory on the GPU for %zu biases", w->rows);
  rc = load_bias(d, lls_cuda_numbers(d), w->bias, parts, biases, n, err);
  return rc < 0 ? rc : load_bias(d, LLS_F32, f32, parts, biases, n, err);
}

/* Returns the form of codes that a part is stored in: none unless rows of x can be read
 * 16 bytes at a time. */
static enum lls_codes_form form_of(const struct lls_cuda_device *d,
                                   const struct lls_tensor_view *part,
                                   enum lls_weight_format format)
{
  if (part->columns % 8 != 0)
    return LLS_NO_CODES;
  switch (format) {
  case LLS_WEIGHTS_INT8:
    return LLS_CODES8;
  case LLS_WEIGHTS_INT4:
    return LLS_CODES4;
  case LLS_WEIGHTS_AUTO:
    return lls_cuda_numbers(d) == LLS_BF16 ? lls_codes_form_of(part) : LLS_NO_CODES;
  default:
    return LLS_NO_CODES;
  }
}

/* Makes one weight of parts that are stored in the same format. *out must be destroyed
 * whatever is returned. */
static int create_alike(struct lls_cuda_device *d, const struct lls_tensor_view *parts,
                        const struct lls_tensor_view *biases, size_t n_parts,
                        enum lls_codes_form form, struct lls_weight **out,
                        struct lls_error *err)
{
  struct lls_weight *w = *out = calloc(1, sizeof *w);
  if (w == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a weight");
  w->columns = parts[0].columns;
  for (size_t i = 0; i < n_parts; i++)
    w->rows += parts[i].rows;
  int rc = form == LLS_NO_CODES ? create_numbers(d, w, parts, n_parts, err)
                                : lls_cuda_codes_create(d, w, form, parts, n_parts, err);
  if (rc == 0 && biases != NULL)
    rc = create_bias(d, w, parts, biases, n_parts, err);
  return rc;
}

static void count_outputs(struct lls_weight *w)
{
  for (; w != NULL; w = w->next)
    for (const struct lls_weight *next = w; next != NULL; next = next->next)
      w->outputs += next->rows;
}

int lls_cuda_weight_create(struct lls_device *device, const struct lls_tensor_view *parts,
                           const struct lls_tensor_view *biases, size_t n_parts,
                           enum lls_weight_format format, struct lls_weight **out,
                           struct lls_error *err)
{
  struct lls_cuda_device *d = lls_cuda(device);
  struct lls_weight *first = NULL, **last = &first;
  int rc = check_parts(parts, biases, n_parts, err);
  bool quantise = format == LLS_WEIGHTS_INT8 || format == LLS_WEIGHTS_INT4;
  if (rc == 0 && quantise && lls_cuda_numbers(d) != LLS_BF16)
    rc = lls_fail(err, -ENOTSUP,
                  "the CUDA device has %s weights for bf16 activations only",
                  format == LLS_WEIGHTS_INT8 ? "int8" : "int4");
  if (rc == 0 && lls_cuda_use(d) < 0)
    rc = lls_fail(err, -EIO, "the GPU of a weight cannot be used");
  for (size_t i = 0, n; rc == 0 && i < n_parts; i += n) {
    enum lls_codes_form form = form_of(d, &parts[i], format);
    for (n = 1; i + n < n_parts && form_of(d, &parts[i + n], format) == form;)
      n++;
    rc = create_alike(d, parts + i, biases != NULL ? biases + i : NULL, n, form, last,
                      err);
    last = rc == 0 ? &(*last)->next : last;
  }
  count_outputs(first);
  if (rc < 0)
    lls_cuda_weight_destroy(device, first);
  else
    *out = first;
  return rc;
}

void lls_cuda_weight_destroy(struct lls_device *device, struct lls_weight *w)
{
  lls_cuda_use(lls_cuda(device));
  if (w != NULL)
    lls_cuda_ops_forget(lls_cuda(device));
  for (struct lls_weight *next; w != NULL; w = next) {
    next = w->next;
    cudaFree(w->data);
    cudaFree(w->bias);
    cudaFree(w->bias_f32);
    cudaFree(w->scales);
    free(w);
  }
}

size_t lls_cuda_weight_bytes(const struct lls_weight *w)
{
  size_t bytes = 0;
  for (; w != NULL; w = w->next)
    bytes += w->bytes;
  return bytes;
}

/* ---- vectors and tables ------------------------------------------------------------ */

int lls_cuda_load_numbers(struct lls_cuda_device *d,
                          const struct lls_adapter_numbers *parts, size_t n)
{
  struct load l = {.device = d, .to = lls_cuda_numbers(d)};
  for (size_t i = 0; i < n; i++) {
    l.target = parts[i].to;
    l.written = 0;
    load_run(&l, (const char *)parts[i].from, LLS_F32, parts[i].n);
    flush(&l);
  }
  return load_end(&l, NULL);
}

int lls_cuda_vector_create(struct lls_device *device, const struct lls_tensor_view *view,
                           float **out, struct lls_error *err)
{
  void *data;
  int rc = lls_cuda_use(lls_cuda(device));
  if (rc == 0)
    rc = lls_cuda_malloc(view->columns * sizeof(float), &data);
  if (rc < 0)
    return lls_fail(err, rc, "no memory on the GPU for a vector of %zu", view->columns);
  struct load l = {.device = lls_cuda(device), .to = LLS_F32, .target = data};
  load_view(&l, view);
  rc = load_end(&l, err);
  if (rc < 0)
    cudaFree(data);
  else
    *out = data;
  return rc;
}

int lls_cuda_table_create(struct lls_device *device, const struct lls_tensor_view *view,
                          void **out, struct lls_error *err)
{
  enum lls_dtype to = lls_cuda_numbers(lls_cuda(device));
  struct lls_cuda_table *table = calloc(1, sizeof *table);
  if (table == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a table");
  table->rows = view->rows;
  table->columns = view->columns;
  int rc = lls_cuda_use(lls_cuda(device));
  if (rc == 0)
    rc = lls_cuda_malloc(view->rows * view->columns * lls_dtype_bytes(to), &table->data);
  if (rc < 0) {
    lls_fail(err, rc, "no memory on the GPU for a table of %zu x %zu", view->rows,
             view->columns);
    free(table);
    return rc;
  }
  struct load l = {.device = lls_cuda(device), .to = to, .target = table->data};
  load_view(&l, view);
  rc = load_end(&l, err);
  if (rc < 0)
    lls_cuda_table_destroy(device, table);
  else
    *out = table;
  return rc;
}

void lls_cuda_table_destroy(struct lls_device *device, void *arg)
{
  struct lls_cuda_table *table = arg;
  if (table == NULL)
    return;
  lls_cuda_use(lls_cuda(device));
  cudaFree(table->data);
  free(table);
}
