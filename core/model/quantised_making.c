/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the tensors of a matrix under assembly, and checks their types and shapes. */
#include "core/model/quantised_matrix.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int lls_making_find(const struct lls_making *m, const char *suffix,
                    struct lls_stored *out)
{
  char name[256];
  snprintf(name, sizeof name, "%s.%s", m->base, suffix);
  return m->source->find(m->source->context, name, out, m->err);
}

int lls_making_check(const struct lls_making *m, const char *suffix,
                     const struct lls_stored *s, const char *type, uint64_t rows,
                     uint64_t columns)
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

int lls_making_need(const struct lls_making *m, const char *suffix, const char *type,
                    uint64_t rows, uint64_t columns, const void **out)
{
  struct lls_stored s;
  int rc = lls_making_find(m, suffix, &s);
  if (rc == -ENOENT)
    return lls_fail(m->err, -EINVAL, "tensor %s.%s is missing", m->base, suffix);
  if (rc == 0)
    rc = lls_making_check(m, suffix, &s, type, rows, columns);
  *out = s.data;
  return rc;
}
