/* SPDX-License-Identifier: Apache-2.0 */
/* Assembles a matrix from the tensors of a quantised folder; see quantisation.h. */
#include "core/model/quantisation.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/model/quantised_matrix.h"

/* Finds a number of f32 that multiplies or divides all scales; 1 if the folder has none.
 */
static int find_factor(const struct lls_making *m, const char *suffix, float *out)
{
  struct lls_stored s;
  int rc = lls_making_find(m, suffix, &s);
  if (rc == 0 && s.n_dims == 0)
    s = (struct lls_stored){s.data, s.type, {1, 1}, 1, s.bytes};
  if (rc == 0)
    rc = lls_making_check(m, suffix, &s, "F32", 1, 1);
  if (rc == 0)
    *out = *(const float *)s.data;
  return rc == -ENOENT ? 0 : rc;
}

/* Sets the type of the scales. Returns 0, or -ENOTSUP. */
static int scale_type(const struct lls_making *m, const char *suffix,
                      const struct lls_stored *s)
{
  static const struct {
    const char *name;
    enum lls_coded_scale type;
  } types[] = {{"F32", LLS_CODED_SCALE_F32},      {"F16", LLS_CODED_SCALE_F16},
               {"BF16", LLS_CODED_SCALE_BF16},    {"F8_E4M3", LLS_CODED_SCALE_E4M3},
               {"F8_E8M0", LLS_CODED_SCALE_E8M0}, {"U8", LLS_CODED_SCALE_E8M0}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    m->out->scale_type = types[i].type;
    bool mx = types[i].type == LLS_CODED_SCALE_E8M0;
    if (strcmp(types[i].name, s->type) == 0 && mx == m->scheme->mx)
      return 0;
  }
  return lls_fail(m->err, -ENOTSUP, "tensor %s.%s is of type %s, where %s is expected",
                  m->base, suffix, s->type, m->scheme->mx ? "U8" : "F32");
}

/* Finds the scales, which may have any float type: `rows` x `columns` of them, or a
 * single one where that is allowed. */
static int find_scales(const struct lls_making *m, const char *suffix, size_t rows,
                       size_t columns)
{
  struct lls_stored s;
  int rc = lls_making_find(m, suffix, &s);
  if (rc == -ENOENT)
    return lls_fail(m->err, -EINVAL, "tensor %s.%s is missing", m->base, suffix);
  if (rc == 0)
    rc = scale_type(m, suffix, &s);
  if (rc < 0)
    return rc;
  uint64_t n = s.n_dims == 0 ? 1 : s.n_dims == 1 ? s.shape[0] : s.shape[0] * s.shape[1];
  m->out->scales = s.data;
  if (n == 1) { /* one for the whole tensor */
    m->out->group = m->out->columns;
    m->out->group_rows = m->out->rows;
    return 0;
  }
  bool column = s.n_dims == 1 && columns == 1 && s.shape[0] == rows;
  return column ? 0 : lls_making_check(m, suffix, &s, s.type, rows, columns);
}

static size_t groups(const struct lls_coded *c)
{
  return (c->columns + c->group - 1) / c->group;
}

/* Finds the zeros, which are dropped if all are in the middle, as for symmetric weights:
 * these need no offsets. */
static int find_zeros(const struct lls_making *m, const char *suffix, size_t rows,
                      size_t columns)
{
  struct lls_coded *c = m->out;
  const void *zeros;
  int rc = lls_making_need(m, suffix, "I32", rows, columns, &zeros);
  if (rc < 0)
    return rc;
  c->zeros = zeros;
  for (size_t row = 0; row < c->rows; row++)
    for (size_t g = 0; g < groups(c); g++)
      if (lls_coded_zero(c, row, g) != UINT32_C(1) << (c->bits - 1))
        return 0;
  c->zeros = NULL;
  return 0;
}

/* Finds the groups of columns; they are dropped if they equal column / group. */
static int find_order(const struct lls_making *m, const char *suffix)
{
  struct lls_coded *c = m->out;
  struct lls_stored s;
  int rc = lls_making_find(m, suffix, &s);
  if (rc == -ENOENT)
    return 0;
  if (rc == 0)
    rc = lls_making_check(m, suffix, &s, "I32", 1, c->columns);
  if (rc < 0)
    return rc;
  const int32_t *group_of = s.data;
  for (size_t k = 0; k < c->columns; k++) {
    if (group_of[k] < 0 || (size_t)group_of[k] >= groups(c))
      return lls_fail(m->err, -EINVAL, "tensor %s.%s names group %d of %zu", m->base,
                      suffix, group_of[k], groups(c));
    if ((size_t)group_of[k] != k / c->group)
      c->group_of = group_of;
  }
  return 0;
}

static int make_gptq(const struct lls_making *m)
{
  struct lls_coded *c = m->out;
  int rc = lls_making_need(m, "qweight", "I32", lls_coded_words(c->columns, c->bits),
                           c->rows, &c->codes);
  if (rc == 0)
    rc = find_scales(m, "scales", groups(c), c->rows);
  if (rc == 0)
    rc = find_zeros(m, "qzeros", groups(c), lls_coded_words(c->rows, c->bits));
  return rc == 0 ? find_order(m, "g_idx") : rc;
}

static int make_awq(const struct lls_making *m)
{
  struct lls_coded *c = m->out;
  int rc = lls_making_need(m, "qweight", "I32", c->columns, c->rows / 8, &c->codes);
  if (rc == 0)
    rc = find_scales(m, "scales", groups(c), c->rows);
  if (rc == 0 && !m->scheme->symmetric)
    rc = find_zeros(m, "qzeros", groups(c), c->rows / 8);
  return rc;
}

static int make_packed(const struct lls_making *m)
{
  struct lls_coded *c = m->out;
  int rc = lls_making_need(m, "weight_packed", "I32", c->rows,
                           lls_coded_words(c->columns, c->bits), &c->codes);
  if (rc == 0)
    rc = find_scales(m, "weight_scale", c->rows, groups(c));
  if (rc == 0 && !m->scheme->symmetric)
    rc = find_zeros(m, "weight_zero_point", lls_coded_words(c->rows, c->bits), groups(c));
  return rc == 0 ? find_order(m, "weight_g_idx") : rc;
}

/* compressed-tensors stores the number by which modelopt's is divided. */
static int make_fp4(const struct lls_making *m)
{
  struct lls_coded *c = m->out;
  bool modelopt = m->scheme->modelopt;
  struct lls_stored s;
  if (lls_making_find(m, "pre_quant_scale", &s) == 0)
    return lls_fail(m->err, -ENOTSUP,
                    "tensor %s.pre_quant_scale scales the inputs of that matrix, which "
                    "is not supported",
                    m->base);
  int rc = lls_making_need(m, modelopt ? "weight" : "weight_packed", "U8", c->rows,
                           c->columns / 2, &c->codes);
  if (rc == 0)
    rc = find_scales(m, "weight_scale", c->rows, groups(c));
  if (rc == 0 && modelopt)
    rc = find_factor(m, "weight_scale_2", &c->factor);
  else if (rc == 0)
    rc = find_factor(m, "weight_global_scale", &c->divisor);
  return rc;
}

/* Returns the name of e4m3 scales. They may be called inverse; codes are multiplied by
 * them all the same. */
static const char *byte_scales(const struct lls_making *m)
{
  struct lls_stored s;
  bool inverse =
      m->out->layout == LLS_CODED_FP8 && lls_making_find(m, "weight_scale_inv", &s) == 0;
  return inverse ? "weight_scale_inv" : "weight_scale";
}

/* bitsandbytes: the largest magnitude of each output stands for 127. */
static int find_magnitudes(const struct lls_making *m)
{
  struct lls_stored order;
  if (lls_making_find(m, "weight_format", &order) == 0 && order.bytes == 1 &&
      *(const uint8_t *)order.data != 0)
    return lls_fail(
        m->err, -ENOTSUP,
        "tensor %s.weight_format is %u: int8 weights are read by rows (0) only", m->base,
        *(const uint8_t *)order.data);
  m->out->divisor = 127;
  return find_scales(m, "SCB", m->out->rows, 1);
}

static int make_bytes(const struct lls_making *m)
{
  struct lls_coded *c = m->out;
  const char *type = c->layout == LLS_CODED_INT8 ? "I8" : "F8_E4M3";
  int rc = lls_making_need(m, "weight", type, c->rows, c->columns, &c->codes);
  size_t rows = (c->rows + c->group_rows - 1) / c->group_rows;
  if (rc == 0 && m->scheme->bitsandbytes)
    return find_magnitudes(m);
  return rc == 0 ? find_scales(m, byte_scales(m), rows, groups(c)) : rc;
}

/* Returns the suffix of the tensor that marks a matrix as quantised. */
static const char *codes_name(const struct lls_scheme *scheme)
{
  bool compressed = scheme->layout == LLS_CODED_PACKED ||
                    (scheme->layout == LLS_CODED_FP4 && !scheme->modelopt);
  return scheme->layout <= LLS_CODED_AWQ ? "qweight"
         : compressed                    ? "weight_packed"
                                         : "weight";
}

static int make(const struct lls_making *m)
{
  switch (m->scheme->layout) {
  case LLS_CODED_GPTQ:
    return make_gptq(m);
  case LLS_CODED_AWQ:
    return make_awq(m);
  case LLS_CODED_PACKED:
    return make_packed(m);
  case LLS_CODED_FP4:
    return make_fp4(m);
  case LLS_CODED_LIST:
    return lls_making_list(m);
  default:
    return make_bytes(m);
  }
}

/* Words of AWQ have eight outputs, bytes of FP4 two inputs. */
static int check_size(const struct lls_scheme *scheme, const char *name, size_t rows,
                      size_t columns, struct lls_error *err)
{
  if ((scheme->layout != LLS_CODED_AWQ || rows % 8 == 0) &&
      (scheme->layout != LLS_CODED_FP4 || columns % 2 == 0))
    return 0;
  return lls_fail(err, -ENOTSUP,
                  "%s is %zu x %zu, which is no whole number of the %s that its codes "
                  "are packed in",
                  name, rows, columns,
                  scheme->layout == LLS_CODED_AWQ ? "eights of outputs"
                                                  : "pairs of inputs");
}

/* bitsandbytes may store codes under a type of numbers. */
static bool is_list(const struct lls_making *m)
{
  struct lls_stored s;
  return m->scheme->layout == LLS_CODED_LIST &&
         lls_making_find(m, "weight.quant_map", &s) == 0;
}

/* Assembles a matrix by one scheme. Returns -ENOENT if it is stored in plain numbers. */
static int by_scheme(const struct lls_scheme *scheme, const char *name, const char *base,
                     const struct lls_stored_source *source, struct lls_coded *out,
                     struct lls_error *err)
{
  const struct lls_making m = {scheme, base, source, out, err};
  size_t rows = out->rows, columns = out->columns;
  *out =
      (struct lls_coded){.layout = scheme->layout,
                         .bits = scheme->bits,
                         .rows = rows,
                         .columns = columns,
                         .group = scheme->group != 0 ? scheme->group : columns,
                         .group_rows = scheme->group_rows != 0 ? scheme->group_rows : 1,
                         .factor = 1,
                         .divisor = 1,
                         .zeros_lack = scheme->zeros_lack,
                         .int8_inputs = scheme->int8_inputs};
  struct lls_stored codes;
  int rc = lls_making_find(&m, codes_name(scheme), &codes);
  bool floats = strcmp(rc == 0 ? codes.type : "", "F32") == 0 ||
                strcmp(rc == 0 ? codes.type : "", "F16") == 0 ||
                strcmp(rc == 0 ? codes.type : "", "BF16") == 0;
  if (rc < 0 || (floats && !is_list(&m)))
    return rc < 0 ? rc : -ENOENT;
  rc = check_size(scheme, name, rows, columns, err);
  return rc == 0 ? make(&m) : rc;
}

int lls_quantisation_matrix(const struct lls_quantisation *q, const char *name,
                            size_t rows, size_t columns,
                            const struct lls_stored_source *source, struct lls_coded *out,
                            struct lls_error *err)
{
  char base[256];
  size_t length = strlen(name), suffix = strlen(".weight");
  if (!q->is_quantised || length <= suffix || length >= sizeof base ||
      strcmp(name + length - suffix, ".weight") != 0)
    return -ENOENT;
  snprintf(base, sizeof base, "%.*s", (int)(length - suffix), name);
  int first = -ENOENT;
  for (uint32_t i = 0; i < q->n_schemes; i++) {
    struct lls_error other = {0};
    *out = (struct lls_coded){.rows = rows, .columns = columns};
    int rc = by_scheme(&q->scheme[i], name, base, source, out,
                       first == -ENOENT ? err : &other);
    if (rc == 0)
      return 0;
    first = first == -ENOENT ? rc : first;
  }
  return first;
}
