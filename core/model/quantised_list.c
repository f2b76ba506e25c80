/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assembles a matrix of bitsandbytes' 4 bits (QLoRA, arXiv 2305.14314). Its elements are
 * in one sequence, in blocks with one scale each; the scales may be bytes that stand for
 * 256 numbers and have scales themselves (double quantisation). The sizes of both blocks
 * are in a JSON text, stored as a tensor.
 */
#include "core/model/quantised_matrix.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json_parse.h"

#define MAX_STATE 4096 /* bytes of the text; it takes some 170 */

static int bad_state(const struct lls_making *m, const char *what)
{
  return lls_fail(m->err, -EINVAL, "tensor %s.weight.quant_state.bitsandbytes__*: %s",
                  m->base, what);
}

static int check_shape(const struct lls_making *m, const json_t *shape)
{
  json_int_t rows = json_integer_value(json_array_get(shape, 0)),
             columns = json_integer_value(json_array_get(shape, 1));
  if ((uint64_t)rows == m->out->rows && (uint64_t)columns == m->out->columns)
    return 0;
  return lls_fail(m->err, -EINVAL,
                  "tensor %s.weight should be %zu x %zu as config.json makes it, and is "
                  "%" JSON_INTEGER_FORMAT " x %" JSON_INTEGER_FORMAT,
                  m->base, m->out->rows, m->out->columns, rows, columns);
}

static size_t size_in(const json_t *state, const char *key)
{
  json_int_t size = json_integer_value(json_object_get(state, key));
  return size > 0 && size <= UINT32_MAX ? (size_t)size : 0;
}

static int read_state(const struct lls_making *m, const json_t *state)
{
  struct lls_coded *c = m->out;
  c->group = size_in(state, "blocksize");
  c->listed.group = size_in(state, "nested_blocksize");
  c->listed.offset = (float)json_number_value(json_object_get(state, "nested_offset"));
  if (c->group == 0)
    return bad_state(m, "\"blocksize\" should be a whole number of 1 or more");
  return check_shape(m, json_object_get(state, "shape"));
}

static int find_state(const struct lls_making *m)
{
  struct lls_stored s;
  int rc = lls_making_find(m, "weight.quant_state.bitsandbytes__nf4", &s);
  if (rc == -ENOENT)
    rc = lls_making_find(m, "weight.quant_state.bitsandbytes__fp4", &s);
  if (rc == -ENOENT)
    return bad_state(m, "is missing");
  if (rc < 0)
    return rc;
  if (strcmp(s.type, "U8") != 0 || s.bytes > MAX_STATE)
    return bad_state(m, "should be a JSON text of type U8");
  json_t *state = lls_json_parse(s.data, s.bytes, 0, NULL);
  rc = state == NULL ? bad_state(m, "should be a JSON text") : read_state(m, state);
  json_decref(state);
  return rc;
}

/* Finds the scales of n blocks, f32 or bytes. */
static int find_block_scales(const struct lls_making *m, size_t n)
{
  struct lls_coded *c = m->out;
  const void *list, *scales;
  struct lls_stored s;
  int rc = lls_making_find(m, "weight.absmax", &s);
  if (rc != 0 || strcmp(s.type, "U8") != 0)
    return rc < 0 && rc != -ENOENT
               ? rc
               : lls_making_need(m, "weight.absmax", "F32", 1, n, &c->scales);
  c->scale_type = LLS_CODED_SCALE_LISTED;
  if (c->listed.group == 0)
    return bad_state(m, "\"nested_blocksize\" should be a whole number of 1 or more");
  size_t blocks = (n + c->listed.group - 1) / c->listed.group;
  rc = lls_making_need(m, "weight.absmax", "U8", 1, n, &c->scales);
  if (rc == 0)
    rc = lls_making_need(m, "weight.nested_quant_map", "F32", 1, 256, &list);
  if (rc == 0)
    rc = lls_making_need(m, "weight.nested_absmax", "F32", 1, blocks, &scales);
  if (rc < 0)
    return rc;
  c->listed.list = list;
  c->listed.scales = scales;
  return 0;
}

/* The codes may be stored as numbers of any type, which does not change their bytes. */
static int find_codes(const struct lls_making *m, size_t n)
{
  struct lls_stored s;
  int rc = lls_making_find(m, "weight", &s);
  if (rc < 0)
    return rc;
  m->out->codes = s.data;
  if (s.bytes == (n + 1) / 2)
    return 0;
  return lls_fail(m->err, -EINVAL,
                  "tensor %s.weight has %zu bytes, where %zu elements of 4 bits take %zu",
                  m->base, s.bytes, n, (n + 1) / 2);
}

int lls_making_list(const struct lls_making *m)
{
  struct lls_coded *c = m->out;
  const void *list = NULL;
  size_t n = c->rows * c->columns;
  int rc = find_codes(m, n);
  if (rc == 0)
    rc = find_state(m);
  if (rc == 0)
    rc = find_block_scales(m, (n + c->group - 1) / c->group);
  if (rc == 0)
    rc = lls_making_need(m, "weight.quant_map", "F32", 1, 16, &list);
  c->list = list;
  return rc;
}
