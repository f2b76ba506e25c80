/* SPDX-License-Identifier: Apache-2.0 */
/* Assembles a matrix from the tensors of a quantised folder; see quantisation.h. */
#include "core/model/quantisation.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A matrix under assembly. */
struct making {
  const struct lls_quantisation *q;
  const char *base; /* the matrix's name without ".weight" */
  const struct lls_stored_source *source;
  struct lls_coded *out;
  struct lls_error *err;
};

static int find(const struct making *m, const char *suffix, struct lls_stored *out)
{
  char name[256];
  snprintf(name, sizeof name, "%s.%s", m->base, suffix);
  return m->source->find(m->source->context, name, out, m->err);
}

static int check(const struct making *m, const char *suffix, const struct lls_stored *s,
                 const char *type, uint64_t rows, uint64_t columns)
{
  bool vector = s->n_dims == 1 && rows == 1 && s->shape[0] == columns;
  if (strcmp(s->type, type) != 0)
    return lls_fail(m->err, -ENOTSUP, "tensor %s.%s is of type %s, where %s is expected",
                    m->base, suffix, s->type, type);
  if (vector || (s->n_dims == 2 && s->shape[0] == rows && s->shape[1] == columns))
    return 0;
  return lls_fail(m->err, -EINVAL,
                  "tensor %s.%s should be %" PRIu64 " x %" PRIu64
                  " as config.json makes it, and is %" PRIu64 " x %" PRIu64,
                  m->base, suffix, rows, columns, s->shape[0],
                  s->n_dims == 2 ? s->shape[1] : 1);
}

/* Finds a mandatory tensor. */
static int need(const struct making *m, const char *suffix, const char *type,
                uint64_t rows, uint64_t columns, const void **out)
{
  struct lls_stored s;
  int rc = find(m, suffix, &s);
  if (rc == -ENOENT)
    return lls_fail(m->err, -EINVAL, "tensor %s.%s is missing", m->base, suffix);
  if (rc == 0)
    rc = check(m, suffix, &s, type, rows, columns);
  *out = s.data;
  return rc;
}

/* Finds the scales, which may have any float type: `rows` x `columns` of them, or a
 * single one where that is allowed. */
static int find_scales(const struct making *m, const char *suffix, size_t rows,
                       size_t columns)
{
  struct lls_stored s;
  int rc = find(m, suffix, &s);
  if (rc == -ENOENT)
    return lls_fail(m->err, -EINVAL, "tensor %s.%s is missing", m->base, suffix);
  if (rc < 0)
    return rc;
  if (strcmp(s.type, "F32") == 0)
    m->out->scale_type = LLS_F32;
  else if (strcmp(s.type, "F16") == 0)
    m->out->scale_type = LLS_F16;
  else if (strcmp(s.type, "BF16") == 0)
    m->out->scale_type = LLS_BF16;
  else
    return check(m, suffix, &s, "F32", rows, columns);
  uint64_t n = s.n_dims == 0 ? 1 : s.n_dims == 1 ? s.shape[0] : s.shape[0] * s.shape[1];
  m->out->scales = s.data;
  if (n == 1) { /* one for the whole tensor */
    m->out->group = m->out->columns;
    m->out->group_rows = m->out->rows;
    return 0;
  }
  bool column = s.n_dims == 1 && columns == 1 && s.shape[0] == rows;
  return column ? 0 : check(m, suffix, &s, s.type, rows, columns);
}

static size_t groups(const struct lls_coded *c)
{
  return (c->columns + c->group - 1) / c->group;
}

/* Returns true if all zeros are 8, as for symmetric weights, which need no offsets. */
static bool all_eight(const uint32_t *zeros, size_t n, uint32_t lack)
{
  uint32_t eights = lack == 0 ? 0x88888888 : 0x77777777;
  for (size_t i = 0; i < n; i++) {
    if (zeros[i] != eights)
      return false;
  }
  return true;
}

static int find_zeros(const struct making *m, const char *suffix, size_t rows,
                      size_t columns)
{
  const void *zeros;
  int rc = need(m, suffix, "I32", rows, columns, &zeros);
  if (rc == 0 && !all_eight(zeros, rows * columns, m->q->zeros_lack))
    m->out->zeros = zeros;
  return rc;
}

/* Finds g_idx; it is dropped if it equals column / group. */
static int find_order(const struct making *m)
{
  struct lls_coded *c = m->out;
  struct lls_stored s;
  int rc = find(m, "g_idx", &s);
  if (rc == -ENOENT)
    return 0;
  if (rc == 0)
    rc = check(m, "g_idx", &s, "I32", 1, c->columns);
  if (rc < 0)
    return rc;
  const int32_t *group_of = s.data;
  for (size_t k = 0; k < c->columns; k++) {
    if (group_of[k] < 0 || (size_t)group_of[k] >= groups(c))
      return lls_fail(m->err, -EINVAL, "tensor %s.g_idx names group %d of %zu", m->base,
                      group_of[k], groups(c));
    if ((size_t)group_of[k] != k / c->group)
      c->group_of = group_of;
  }
  return 0;
}

static int make_gptq(const struct making *m)
{
  struct lls_coded *c = m->out;
  int rc = need(m, "qweight", "I32", c->columns / 8, c->rows, &c->codes);
  if (rc == 0)
    rc = find_scales(m, "scales", groups(c), c->rows);
  if (rc == 0)
    rc = find_zeros(m, "qzeros", groups(c), c->rows / 8);
  return rc == 0 ? find_order(m) : rc;
}

static int make_awq(const struct making *m)
{
  struct lls_coded *c = m->out;
  int rc = need(m, "qweight", "I32", c->columns, c->rows / 8, &c->codes);
  if (rc == 0)
    rc = find_scales(m, "scales", groups(c), c->rows);
  if (rc == 0 && !m->q->symmetric)
    rc = find_zeros(m, "qzeros", groups(c), c->rows / 8);
  return rc;
}

static int make_packed(const struct making *m)
{
  struct lls_coded *c = m->out;
  int rc = need(m, "weight_packed", "I32", c->rows, c->columns / 8, &c->codes);
  if (rc == 0)
    rc = find_scales(m, "weight_scale", c->rows, groups(c));
  if (rc == 0 && !m->q->symmetric)
    rc = find_zeros(m, "weight_zero_point", c->rows / 8, groups(c));
  return rc;
}

/* Returns the name of e4m3 scales. They may be called inverse; codes are multiplied by
 * them all the same. */
static const char *byte_scales(const struct making *m)
{
  struct lls_stored s;
  bool inverse = m->out->layout == LLS_CODED_FP8 && find(m, "weight_scale_inv", &s) == 0;
  return inverse ? "weight_scale_inv" : "weight_scale";
}

static int make_bytes(const struct making *m)
{
  struct lls_coded *c = m->out;
  const char *type = c->layout == LLS_CODED_INT8 ? "I8" : "F8_E4M3";
  int rc = need(m, "weight", type, c->rows, c->columns, &c->codes);
  size_t rows = (c->rows + c->group_rows - 1) / c->group_rows;
  return rc == 0 ? find_scales(m, byte_scales(m), rows, groups(c)) : rc;
}

/* Returns the suffix of the tensor that marks a matrix as quantised. */
static const char *codes_name(enum lls_coded_layout layout)
{
  return layout <= LLS_CODED_AWQ      ? "qweight"
         : layout == LLS_CODED_PACKED ? "weight_packed"
                                      : "weight";
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
  const struct making m = {q, base, source, out, err};
  *out = (struct lls_coded){.layout = q->layout,
                            .rows = rows,
                            .columns = columns,
                            .group = q->group != 0 ? q->group : columns,
                            .group_rows = q->group_rows != 0 ? q->group_rows : 1,
                            .zeros_lack = q->zeros_lack,
                            .int8_inputs = q->int8_inputs};
  struct lls_stored codes;
  int rc = find(&m, codes_name(q->layout), &codes);
  bool floats = strcmp(rc == 0 ? codes.type : "", "F32") == 0 ||
                strcmp(rc == 0 ? codes.type : "", "F16") == 0 ||
                strcmp(rc == 0 ? codes.type : "", "BF16") == 0;
  if (rc < 0 || floats)
    return rc < 0 ? rc : -ENOENT;
  if (q->layout <= LLS_CODED_PACKED && (rows % 8 != 0 || columns % 8 != 0))
    return lls_fail(err, -ENOTSUP,
                    "%s is %zu x %zu: 4 bits are packed in eights, of both", name, rows,
                    columns);
  switch (q->layout) {
  case LLS_CODED_GPTQ:
    return make_gptq(&m);
  case LLS_CODED_AWQ:
    return make_awq(&m);
  case LLS_CODED_PACKED:
    return make_packed(&m);
  default:
    return make_bytes(&m);
  }
}
