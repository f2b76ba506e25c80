/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the tensors that a GGUF header lists: names, shapes, types, and places; finds one
 * by its name. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/quantised.h"
#include "core/model/gguf.h"
#include "core/model/gguf_coded.h"
#include "core/model/gguf_cursor.h"

/* The types of the format by number; a type with only a name is not supported. */
static const struct {
  const char *name;
  bool is_known;
  enum lls_dtype dtype;
} tensor_types[] = {
    [0] = {"F32", true, LLS_F32},
    [1] = {"F16", true, LLS_F16},
    [2] = {"Q4_0", true, LLS_Q4_0},
    [3] = {"Q4_1", true, LLS_Q4_1},
    [6] = {"Q5_0", true, LLS_Q5_0},
    [7] = {"Q5_1", true, LLS_Q5_1},
    [8] = {"Q8_0", true, LLS_Q8_0},
    [9] = {"Q8_1", false, 0},
    [10] = {"Q2_K", true, LLS_Q2_K},
    [11] = {"Q3_K", true, LLS_Q3_K},
    [12] = {"Q4_K", true, LLS_Q4_K},
    [13] = {"Q5_K", true, LLS_Q5_K},
    [14] = {"Q6_K", true, LLS_Q6_K},
    [15] = {"Q8_K", false, 0},
    [16] = {"IQ2_XXS", true, LLS_IQ2_XXS},
    [17] = {"IQ2_XS", true, LLS_IQ2_XS},
    [18] = {"IQ3_XXS", true, LLS_IQ3_XXS},
    [19] = {"IQ1_S", true, LLS_IQ1_S},
    [20] = {"IQ4_NL", true, LLS_IQ4_NL},
    [21] = {"IQ3_S", true, LLS_IQ3_S},
    [22] = {"IQ2_S", true, LLS_IQ2_S},
    [23] = {"IQ4_XS", true, LLS_IQ4_XS},
    [24] = {"I8", false, 0},
    [25] = {"I16", false, 0},
    [26] = {"I32", false, 0},
    [27] = {"I64", false, 0},
    [28] = {"F64", false, 0},
    [29] = {"IQ1_M", true, LLS_IQ1_M},
    [30] = {"BF16", true, LLS_BF16},
    [34] = {"TQ1_0", true, LLS_TQ1_0},
    [35] = {"TQ2_0", true, LLS_TQ2_0},
    [39] = {"MXFP4", true, LLS_MXFP4},
    [40] = {"NVFP4", true, LLS_CODED}, /* gguf_coded.h; as many bytes as LLS_CODED says */
    [41] = {"Q1_0", false, 0},
};

#define N_TENSOR_TYPES (sizeof tensor_types / sizeof tensor_types[0])

static int read_type(struct lls_gguf_cursor *c, struct lls_gguf_tensor *t)
{
  uint32_t type;
  int rc = lls_gguf_take_u32(c, &type, t->name);
  if (rc < 0)
    return rc;
  const char *name = type < N_TENSOR_TYPES ? tensor_types[type].name : NULL;
  if (name == NULL || !tensor_types[type].is_known)
    return lls_fail(c->err, -ENOTSUP,
                    "%s: tensor %.128s is of type %s (%u), which cannot be used; F32, "
                    "F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ1 to IQ4, "
                    "TQ1_0, TQ2_0, MXFP4 and NVFP4 can",
                    c->file->path, t->name, name != NULL ? name : "unknown", type);
  t->dtype = tensor_types[type].dtype;
  return 0;
}

static int read_shape(struct lls_gguf_cursor *c, struct lls_gguf_tensor *t)
{
  int rc = lls_gguf_take_u32(c, &t->n_dims, t->name);
  if (rc == 0 && (t->n_dims == 0 || t->n_dims > LLS_GGUF_MAX_DIMS))
    rc = lls_fail(c->err, -EINVAL, "%s: tensor %.128s has %u dimensions, not 1 to %d",
                  c->file->path, t->name, t->n_dims, LLS_GGUF_MAX_DIMS);
  for (uint32_t i = 0; rc == 0 && i < t->n_dims; i++)
    rc = lls_gguf_take_u64(c, &t->shape[t->n_dims - 1 - i], t->name);
  return rc;
}

/* Computes the bytes of a tensor from its shape and type. */
static int measure(struct lls_gguf_cursor *c, struct lls_gguf_tensor *t)
{
  uint64_t columns = t->shape[t->n_dims - 1];
  bool coded = t->dtype == LLS_CODED;
  size_t block = coded ? LLS_NVFP4_BLOCK : lls_dtype_block(t->dtype);
  if (columns > UINT64_MAX / 64 || columns % block != 0)
    return lls_fail(c->err, -EINVAL,
                    "%s: tensor %.128s has rows of %" PRIu64 " numbers, which are no "
                    "whole blocks of %s",
                    c->file->path, t->name, columns,
                    coded ? "NVFP4" : lls_dtype_name(t->dtype));
  t->bytes = lls_dtype_row_bytes(t->dtype, columns);
  for (uint32_t i = 0; i + 1 < t->n_dims; i++)
    if (__builtin_mul_overflow(t->bytes, t->shape[i], &t->bytes))
      return lls_fail(c->err, -EINVAL, "%s: tensor %.128s has more bytes than any file",
                      c->file->path, t->name);
  return 0;
}

static int read_tensor(struct lls_gguf_cursor *c, struct lls_gguf_file *file)
{
  const unsigned char *name;
  uint64_t length, offset;
  int rc = lls_gguf_take_name(c, &name, &length, "a tensor's name");
  if (rc < 0)
    return rc;
  struct lls_gguf_tensor *t = calloc(1, sizeof *t + length + 1), *twin;
  if (t == NULL)
    return lls_fail(c->err, -ENOMEM, "%s: out of memory", file->path);
  memcpy(t->name, name, length);
  rc = read_shape(c, t);
  if (rc == 0)
    rc = read_type(c, t);
  if (rc == 0)
    rc = lls_gguf_take_u64(c, &offset, t->name);
  if (rc == 0)
    rc = measure(c, t);
  HASH_FIND_STR(file->tensors, t->name, twin);
  if (rc == 0 && twin != NULL)
    rc = lls_fail(c->err, -EINVAL, "%s: tensor %.128s is there twice", file->path,
                  t->name);
  if (rc < 0) {
    free(t);
    return rc;
  }
  t->offset = offset;
  HASH_ADD_STR(file->tensors, name, t);
  if (t->hh.tbl != NULL)
    return 0;
  free(t);
  return lls_fail(c->err, -ENOMEM, "%s: out of memory", file->path);
}

/* Checks that each tensor begins where the previous one ended, rounded up to the
 * alignment. */
static int place_tensors(struct lls_gguf_cursor *c, struct lls_gguf_file *file,
                         size_t alignment)
{
  size_t base = (size_t)(c->at - file->map), room, at = 0;
  base = (base + alignment - 1) / alignment * alignment;
  room = file->bytes > base ? file->bytes - base : 0;
  struct lls_gguf_tensor *t, *next;
  HASH_ITER(hh, file->tensors, t, next)
  {
    at = (at + alignment - 1) / alignment * alignment;
    if (t->offset != at)
      return lls_fail(c->err, -EINVAL,
                      "%s: tensor %.128s is at byte %zu of the data, where %zu is due: "
                      "tensors overlap or leave a hole",
                      file->path, t->name, t->offset, at);
    if (t->offset > room || t->bytes > room - t->offset)
      return lls_fail(c->err, -EINVAL,
                      "%s: tensor %.128s needs %zu bytes from %zu on but the file has "
                      "only %zu of data: it was cut off",
                      file->path, t->name, t->bytes, t->offset, room);
    t->data = file->map + base + t->offset;
    at += t->bytes;
  }
  return 0;
}

int lls_gguf_read_tensors(struct lls_gguf_cursor *c, struct lls_gguf_file *file,
                          uint64_t n, size_t alignment)
{
  int rc = 0;
  for (uint64_t i = 0; rc == 0 && i < n; i++)
    rc = read_tensor(c, file);
  return rc < 0 ? rc : place_tensors(c, file, alignment);
}

const struct lls_gguf_tensor *lls_gguf_tensor(const struct lls_gguf *g, const char *name)
{
  struct lls_gguf_tensor *found = NULL;
  for (size_t i = 0; found == NULL && i < g->n_files; i++)
    HASH_FIND_STR(g->files[i]->tensors, name, found);
  return found;
}
