/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads rows of codes to the device in the order of codes.h. The host rearranges them,
 * some rows at a time, in the pinned staging memory of weights. Codes are not widened
 * on the way.
 */
#include "core/device/coded.h"
#include "core/device/numbers.h"
#include "kernels/cuda/codes.h"
#include "kernels/cuda/ops.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of a row's codes and of its scales. */
struct row_bytes {
  size_t pieces, codes, scales;
};

static struct row_bytes row_bytes(enum lls_codes_form form, size_t columns)
{
  size_t each = lls_cuda_piece_columns(form), pieces = (columns + each - 1) / each;
  return (struct row_bytes){
      .pieces = pieces,
      .codes = pieces * lls_cuda_piece_bytes(form),
      .scales = pieces * lls_cuda_piece_scales(form) * sizeof(uint16_t),
  };
}

/* ---- a piece ----------------------------------------------------------------------- */

/* Returns the column of a lane's code i, of 32 columns. */
static size_t column_of(enum lls_codes_form form, unsigned lane, unsigned i)
{
  unsigned q = i / 8, of = i % 8;
  return lls_cuda_codes_group(form) == 16 ? 32 * q + of / 4 * 16 + 4 * lane + of % 4
                                          : 32 * q + 8 * lane + of;
}

static void put_word(uint8_t *to, uint32_t word)
{
  to[0] = (uint8_t)word;
  to[1] = (uint8_t)(word >> 8);
  to[2] = (uint8_t)(word >> 16);
  to[3] = (uint8_t)(word >> 24);
}

/* Packs 8-bit codes: the second and third code of a word are swapped; integers are
 * stored signed. */
static void pack_bytes(enum lls_codes_form form, const uint8_t *code, unsigned lane,
                       uint8_t *to)
{
  static const uint8_t place[4] = {0, 2, 1, 3};
  uint8_t sign = form == LLS_CODES8 ? 0x80 : 0;
  for (unsigned i = 0; i < LLS_CUDA_LANE_BYTES; i++)
    to[i / 4 * 4 + place[i % 4]] = code[column_of(form, lane, i)] ^ sign;
}

/* Extracts a field of `bits` from bit `shift` on from each of eight codes: fields of
 * even codes side by side from bit 0 on, of odd codes from bit 16 on. */
static uint32_t fields_of(uint64_t codes, unsigned shift, unsigned bits)
{
  uint64_t mask = ((UINT64_C(1) << bits) - 1) * UINT64_C(0x0001000100010001);
  uint32_t word = 0;
  for (unsigned odd = 0; odd < 2; odd++) {
    uint64_t lanes = codes >> (shift + 8 * odd) & mask, step = 16 - bits;
    lanes |= lanes >> step | lanes >> 2 * step | lanes >> 3 * step;
    word |= (uint32_t)(lanes & ((1u << 4 * bits) - 1)) << 16 * odd;
  }
  return word;
}

/* Returns eight codes of a lane, the first in the lowest byte. */
static uint64_t eight_codes(enum lls_codes_form form, const uint8_t *code, unsigned lane,
                            unsigned q)
{
  uint64_t codes = 0;
  for (unsigned i = 0; i < 8; i++)
    codes |= (uint64_t)code[column_of(form, lane, 8 * q + i)] << 8 * i;
  return codes;
}

/* Packs the low four bits of codes in four words, then their high bits in as many words
 * as these take. */
static void pack_nibbles(enum lls_codes_form form, const uint8_t *code, unsigned lane,
                         uint8_t *low, uint8_t *high)
{
  unsigned wide = lls_cuda_code_bits(form) - 4;
  uint32_t above[2] = {0, 0};
  for (unsigned q = 0; q < 4; q++) {
    uint64_t codes = eight_codes(form, code, lane, q);
    put_word(low + 4 * q, fields_of(codes, 0, 4));
    if (wide > 0)
      above[q * wide / 4] |= fields_of(codes, 4, wide) << 4 * q * wide % 16;
  }
  for (unsigned i = 0; i < wide; i++)
    put_word(high + 4 * i, above[i]);
}

static void pack_codes(enum lls_codes_form form, const uint8_t *code, size_t pieces,
                       uint8_t *to)
{
  uint32_t columns = lls_cuda_piece_columns(form),
           high = lls_cuda_piece_bytes(form) / 4 - LLS_CUDA_LANE_BYTES;
  for (size_t p = 0; p < pieces; p++, to += lls_cuda_piece_bytes(form), code += columns)
    for (unsigned lane = 0; lane < 4; lane++) {
      uint8_t *low = to + lane * LLS_CUDA_LANE_BYTES;
      if (lls_cuda_code_bits(form) == 8)
        pack_bytes(form, code, lane, low);
      else
        pack_nibbles(form, code, lane, low, to + LLS_CUDA_PIECE_BYTES + lane * high);
    }
}

/* Packs a row's scales and returns their factor. */
static float pack_scales(enum lls_codes_form form, const struct lls_row_codes *row,
                         size_t bytes, uint16_t *to)
{
  int exponent = lls_row_codes_exponent(row);
  bool offsets = lls_cuda_codes_offset(form);
  memset(to, 0, bytes);
  for (size_t g = 0; g < row->groups; g++) {
    *to++ = lls_f32_to_f16(ldexpf(row->scale[g], -exponent));
    if (offsets)
      *to++ = lls_f32_to_f16(ldexpf(row->offset[g], -exponent));
  }
  return ldexpf(1, exponent);
}

/* ---- a matrix ---------------------------------------------------------------------- */

/* Rows in a staging buffer: codes, scales and factors. */
struct rows {
  struct lls_cuda_device *device;
  const struct lls_weight *weight;
  struct row_bytes bytes;
  size_t first, n, room;
};

static char *staged(const struct rows *r)
{
  return r->device->staging[r->device->staging_turn];
}

/* Sends the staged rows, and waits until the other buffer is free. */
static int send(struct rows *r)
{
  struct lls_cuda_device *d = r->device;
  const struct lls_cuda_codes *to = &r->weight->codes;
  const struct {
    const void *to;
    size_t bytes; /* bytes of a row */
  } parts[] = {{to->codes, r->bytes.codes},
               {to->scales, r->bytes.scales},
               {to->factors, sizeof *to->factors}};
  const char *from = staged(r);
  int rc = 0;
  for (size_t i = 0; i < 3 && rc == 0; from += r->room * parts[i++].bytes)
    rc = cudaMemcpyAsync((char *)parts[i].to + r->first * parts[i].bytes, from,
                         r->n * parts[i].bytes, cudaMemcpyHostToDevice, d->stream);
  if (rc == 0)
    rc = cudaEventRecord(d->staging_sent[d->staging_turn], d->stream);
  r->first += r->n;
  r->n = 0;
  d->staging_turn ^= 1;
  return rc != 0 ? rc : (int)cudaEventSynchronize(d->staging_sent[d->staging_turn]);
}

static void pack(struct rows *r, const struct lls_row_codes *row)
{
  enum lls_codes_form form = r->weight->codes.form;
  char *codes = staged(r), *scales = codes + r->room * r->bytes.codes;
  float *factors = (float *)(scales + r->room * r->bytes.scales);
  pack_codes(form, row->code, r->bytes.pieces, (uint8_t *)codes + r->n * r->bytes.codes);
  factors[r->n] = pack_scales(form, row, r->bytes.scales,
                              (uint16_t *)(scales + r->n * r->bytes.scales));
  r->n++;
}

/* Returns the scale that all groups of the row share; 0 if they differ. */
static float one_scale(const struct lls_row_codes *row)
{
  for (size_t g = 1; g < row->groups; g++)
    if (row->scale[g] != row->scale[0])
      return 0;
  return row->scale[0];
}

/* Can cuBLASLt multiply by these codes, if each output has one scale? True for FP8; for
 * int8 only if the model was made for int8 activations, since rounding to int8 loses
 * more than rounding to e4m3. */
static bool wants_scales(enum lls_codes_form form, const struct lls_tensor_view *parts,
                         size_t n_parts)
{
  bool all = true;
  for (size_t i = 0; i < n_parts; i++)
    all &= parts[i].dtype == LLS_CODED &&
           ((const struct lls_coded *)parts[i].data)->int8_inputs;
  return form == LLS_CODES8_FLOAT || (form == LLS_CODES8 && all);
}

/* Loads one scale for each output, for cuBLASLt, if all groups of each output share
 * one. */
static int load_scales(struct lls_cuda_device *d, struct lls_weight *w,
                       const float *scales, struct lls_error *err)
{
  void *to;
  for (size_t i = 0; i < w->rows; i++)
    if (!(scales[i] > 0))
      return 0;
  int rc = lls_cuda_malloc(w->rows * sizeof *scales, &to);
  if (rc < 0)
    return lls_fail(err, rc, "no memory on the GPU for %zu scales", w->rows);
  w->scales = to;
  for (size_t done = 0, n; done < w->rows && rc == 0; done += n) {
    size_t room = LLS_CUDA_STAGING / sizeof *scales;
    n = w->rows - done < room ? w->rows - done : room;
    memcpy(d->staging[d->staging_turn], scales + done, n * sizeof *scales);
    rc = cudaMemcpyAsync(w->scales + done, d->staging[d->staging_turn],
                         n * sizeof *scales, cudaMemcpyHostToDevice, d->stream);
    rc = rc != 0 ? rc : (int)cudaStreamSynchronize(d->stream);
  }
  return lls_cuda_check(rc, err, "loading scales");
}

/* Loads rows. one: (rows) gets each row's common scale, if it has one; may be NULL. */
static int load(struct rows *r, const struct lls_tensor_view *parts, size_t n_parts,
                void *scratch, float *one, struct lls_error *err)
{
  enum lls_codes_form form = r->weight->codes.form;
  size_t columns = r->bytes.pieces * lls_cuda_piece_columns(form);
  int rc = 0;
  struct lls_row_codes row = lls_row_codes_in(scratch, columns);
  for (size_t i = 0; i < n_parts; i++)
    for (size_t k = 0; k < parts[i].rows && rc == 0; k++) {
      lls_row_codes_read(&row, &parts[i], k, form);
      if (one != NULL)
        *one++ = one_scale(&row);
      pack(r, &row);
      if (r->n == r->room)
        rc = send(r);
    }
  if (rc == 0)
    rc = send(r);
  if (rc == 0)
    rc = cudaStreamSynchronize(r->device->stream);
  return lls_cuda_check(rc, err, "loading weights");
}

/* Like load, but allocates the scratch memory. */
static int load_all(struct rows *r, struct lls_weight *w,
                    const struct lls_tensor_view *parts, size_t n_parts,
                    struct lls_error *err)
{
  bool scales = wants_scales(w->codes.form, parts, n_parts);
  size_t columns = r->bytes.pieces * lls_cuda_piece_columns(w->codes.form);
  void *scratch = malloc(lls_row_codes_scratch(columns));
  float *one = scales ? malloc(w->rows * sizeof *one) : NULL;
  int rc = scratch == NULL || (scales && one == NULL)
               ? lls_fail(err, -ENOMEM, "no memory for a weight's rows")
               : load(r, parts, n_parts, scratch, one, err);
  if (rc == 0 && scales)
    rc = load_scales(r->device, w, one, err);
  free(scratch);
  free(one);
  return rc;
}

/* Allocates the memory for widened outputs when the first codes are loaded. */
static int ensure_widened(struct lls_cuda_device *d)
{
  return d->widened != NULL ? 0 : lls_cuda_malloc(LLS_CUDA_WIDENED, &d->widened);
}

int lls_cuda_codes_create(struct lls_cuda_device *d, struct lls_weight *w,
                          enum lls_codes_form form, const struct lls_tensor_view *parts,
                          size_t n_parts, struct lls_error *err)
{
  struct rows r = {.device = d, .weight = w, .bytes = row_bytes(form, w->columns)};
  size_t scales = w->rows * r.bytes.scales, factors = w->rows * sizeof(float);
  size_t aligned = (w->rows * r.bytes.codes + scales + 3) / 4 * 4;
  r.room = LLS_CUDA_STAGING / (r.bytes.codes + r.bytes.scales + sizeof(float));
  w->bytes = aligned + factors;
  int rc = lls_cuda_malloc(w->bytes, &w->data);
  if (rc == 0)
    rc = ensure_widened(d);
  if (rc < 0)
    return lls_fail(err, rc, "no memory on the GPU for a weight of %zu x %zu (%zu MiB)",
                    w->rows, w->columns, w->bytes >> 20);
  if (r.room == 0)
    return lls_fail(err, -ENOTSUP, "a weight of %zu inputs", w->columns);
  w->codes = (struct lls_cuda_codes){
      .form = form,
      .outputs = (uint32_t)w->rows,
      .inputs = (uint32_t)w->columns,
      .codes = w->data,
      .scales = (const uint16_t *)((char *)w->data + w->rows * r.bytes.codes),
      .factors = (const float *)((char *)w->data + aligned),
  };
  return load_all(&r, w, parts, n_parts, err);
}
