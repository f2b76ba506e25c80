/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps one file and checks its header. The checks make views safe and reveal damaged
 * downloads: the header lies within the file; names differ; the bytes of each tensor
 * match its shape; and in order of offset the tensors fill the rest of the file
 * exactly, so that none overlap and nothing is cut off.
 */
#include "core/model/safetensors_file.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/file.h"
#include "core/base/json_parse.h"

#define MAX_HEADER (100u << 20) /* the format's own limit */

static const struct lls_tensor_type types[] = {
    {"F32", 4, true, LLS_F32}, {"F16", 2, true, LLS_F16}, {"BF16", 2, true, LLS_BF16},
    {"BOOL", 1, false, 0},     {"U8", 1, false, 0},       {"I8", 1, false, 0},
    {"F8_E4M3", 1, false, 0},  {"F8_E5M2", 1, false, 0},  {"U16", 2, false, 0},
    {"I16", 2, false, 0},      {"U32", 4, false, 0},      {"I32", 4, false, 0},
    {"F64", 8, false, 0},      {"U64", 8, false, 0},      {"I64", 8, false, 0},
    {"F8_E8M0", 1, false, 0},
};

static const struct lls_tensor_type *type_named(const char *name)
{
  for (size_t i = 0; name != NULL && i < sizeof types / sizeof types[0]; i++)
    if (strcmp(types[i].name, name) == 0)
      return &types[i];
  return NULL;
}

void lls_tensor_shape_text(const uint64_t *shape, uint32_t n_dims, char *text,
                           size_t size)
{
  size_t used = (size_t)snprintf(text, size, "[");
  for (uint32_t i = 0; i < n_dims && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, i == 0 ? "" : ", ",
                             shape[i]);
  if (used < size)
    snprintf(text + used, size - used, "]");
}

/* ---- one entry of the header ---------------------------------------------------- */

static int bad_tensor(const struct lls_tensor *t, struct lls_error *err, const char *what)
{
  return lls_fail(err, -EINVAL, "%s: tensor %.128s: %s", t->file->path, t->name, what);
}

/* Reads a shape, and computes the bytes of a tensor with that shape. */
static int read_shape(struct lls_tensor *t, const json_t *shape, size_t *bytes,
                      struct lls_error *err)
{
  if (!json_is_array(shape) || json_array_size(shape) > LLS_TENSOR_MAX_DIMS)
    return bad_tensor(t, err, "its shape should be a list of at most 8 numbers");
  *bytes = t->type->bytes;
  t->n_dims = (uint32_t)json_array_size(shape);
  for (uint32_t i = 0; i < t->n_dims; i++) {
    const json_t *dim = json_array_get(shape, i);
    if (!json_is_integer(dim) || json_integer_value(dim) < 0)
      return bad_tensor(t, err, "its shape should be a list of whole numbers");
    t->shape[i] = (uint64_t)json_integer_value(dim);
    if (__builtin_mul_overflow(*bytes, t->shape[i], bytes))
      return bad_tensor(t, err, "its shape has more bytes than any file");
  }
  return 0;
}

/* Reads data_offsets [begin, end) of the `room` bytes of data that start at `base`. */
static int read_offsets(struct lls_tensor *t, const json_t *offsets, size_t base,
                        size_t room, struct lls_error *err)
{
  const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
    return bad_tensor(t, err, "its data_offsets should be two numbers");
  json_int_t from = json_integer_value(begin), to = json_integer_value(end);
  if (from < 0 || to < from)
    return bad_tensor(t, err, "its data_offsets are not in order");
  if ((uint64_t)to > room)
    return lls_fail(err, -EINVAL,
                    "%s: tensor %.128s ends at byte %lld of the data but the file has "
                    "only %zu: it was cut off or its header is wrong",
                    t->file->path, t->name, (long long)to, room);
  t->offset = base + (size_t)from;
  t->bytes = (size_t)(to - from);
  return 0;
}

static int read_tensor(struct lls_tensor *t, const json_t *entry, size_t base,
                       struct lls_error *err)
{
  const char *type = json_string_value(json_object_get(entry, "dtype"));
  t->type = type_named(type);
  if (t->type == NULL)
    return lls_fail(err, -EINVAL, "%s: tensor %.128s: unknown type \"%.32s\"",
                    t->file->path, t->name, type == NULL ? "" : type);
  size_t bytes = 0;
  int rc = read_shape(t, json_object_get(entry, "shape"), &bytes, err);
  if (rc == 0)
    rc = read_offsets(t, json_object_get(entry, "data_offsets"), base,
                      t->file->bytes - base, err);
  if (rc < 0 || t->bytes == bytes)
    return rc;
  return lls_fail(err, -EINVAL,
                  "%s: tensor %.128s has %zu bytes but its shape and type make %zu",
                  t->file->path, t->name, t->bytes, bytes);
}

static int add_tensor(struct lls_tensor_file *file, const char *name, const json_t *entry,
                      size_t base, struct lls_tensor **tensors, struct lls_tensor **out,
                      struct lls_error *err)
{
  size_t length = strlen(name);
  struct lls_tensor *t = calloc(1, sizeof *t + length + 1), *twin;
  if (t == NULL)
    return lls_fail(err, -ENOMEM, "%s: out of memory", file->path);
  memcpy(t->name, name, length);
  t->file = file;
  int rc = read_tensor(t, entry, base, err);
  if (rc == 0) {
    HASH_FIND_STR(*tensors, t->name, twin);
    if (twin != NULL)
      rc = lls_fail(err, -EINVAL, "%s: tensor %.128s is in %s too", file->path, name,
                    twin->file->name);
  }
  if (rc < 0) {
    lls_tensor_free(t);
    return rc;
  }
  HASH_ADD_STR(*tensors, name, t);
  if (t->hh.tbl == NULL) {
    lls_tensor_free(t);
    return lls_fail(err, -ENOMEM, "%s: out of memory", file->path);
  }
  *out = t;
  return 0;
}

/* ---- the header as a whole ------------------------------------------------------ */

static int by_offset(const void *a, const void *b)
{
  const struct lls_tensor *x = *(struct lls_tensor *const *)a,
                          *y = *(struct lls_tensor *const *)b;
  if (x->offset != y->offset)
    return x->offset < y->offset ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* empty tensors first */
}

static int check_cover(const struct lls_tensor_file *file, struct lls_tensor **list,
                       size_t n, size_t base, struct lls_error *err)
{
  qsort(list, n, sizeof(struct lls_tensor *), by_offset);
  size_t at = base;
  for (size_t i = 0; i < n; i++) {
    if (list[i]->offset < at)
      return lls_fail(err, -EINVAL, "%s: tensors %.128s and %.128s overlap", file->path,
                      list[i - 1]->name, list[i]->name);
    if (list[i]->offset > at)
      return lls_fail(err, -EINVAL, "%s: %zu bytes before tensor %.128s belong to none",
                      file->path, list[i]->offset - at, list[i]->name);
    at += list[i]->bytes;
  }
  if (at != file->bytes)
    return lls_fail(err, -EINVAL, "%s: %zu bytes at the end belong to no tensor",
                    file->path, file->bytes - at);
  return 0;
}

static int add_tensors(struct lls_tensor_file *file, json_t *header, size_t base,
                       struct lls_tensor **tensors, struct lls_error *err)
{
  size_t n = 0;
  struct lls_tensor **list = calloc(json_object_size(header) + 1, sizeof *list);
  if (list == NULL)
    return lls_fail(err, -ENOMEM, "%s: out of memory", file->path);
  const char *name;
  json_t *entry;
  int rc = 0;
  json_object_foreach(header, name, entry)
  {
    if (strcmp(name, "__metadata__") != 0)
      rc = add_tensor(file, name, entry, base, tensors, &list[n++], err);
    if (rc < 0)
      break;
  }
  if (rc == 0)
    rc = check_cover(file, list, n, base, err);
  free(list);
  return rc;
}

static int read_header(struct lls_tensor_file *file, struct lls_tensor **tensors,
                       struct lls_error *err)
{
  uint64_t length;
  if (file->bytes < sizeof length)
    return lls_fail(err, -EINVAL, "%s: too short for a safetensors file (%zu bytes)",
                    file->path, file->bytes);
  memcpy(&length, file->map, sizeof length);
  length = le64toh(length);
  if (length > MAX_HEADER || length > file->bytes - sizeof length)
    return lls_fail(err, -EINVAL,
                    "%s: its header claims %" PRIu64 " bytes but the file has %zu: it "
                    "was cut off or is no safetensors file",
                    file->path, length, file->bytes);
  json_error_t at;
  json_t *header = lls_json_parse((const char *)file->map + sizeof length, length,
                                  JSON_REJECT_DUPLICATES, &at);
  if (!json_is_object(header)) {
    json_decref(header);
    return lls_fail(err, -EINVAL, "%s: its header is not a JSON object: %s", file->path,
                    at.text);
  }
  int rc = add_tensors(file, header, sizeof length + length, tensors, err);
  json_decref(header);
  return rc;
}

/* ---- the file ------------------------------------------------------------------- */

static struct lls_tensor_file *file_alloc(const char *folder, const char *name)
{
  size_t folder_size = strlen(folder) + 1, path_size = folder_size + strlen(name) + 1;
  struct lls_tensor_file *file = calloc(1, sizeof *file + folder_size + path_size);
  if (file == NULL)
    return NULL;
  char *text = (char *)(file + 1);
  file->folder = memcpy(text, folder, folder_size);
  snprintf(text + folder_size, path_size, "%s/%s", folder, name);
  file->path = text + folder_size;
  file->name = file->path + folder_size;
  return file;
}

int lls_tensor_file_open(const char *folder, const char *name,
                         struct lls_tensor **tensors, struct lls_tensor_file **out,
                         struct lls_error *err)
{
  struct lls_tensor_file *file = file_alloc(folder, name);
  if (file == NULL)
    return lls_fail(err, -ENOMEM, "%s/%s: out of memory", folder, name);
  int rc = lls_file_map(file->path, &file->map, &file->bytes, err);
  if (rc < 0) {
    lls_tensor_file_close(file);
    return rc;
  }
  *out = file;
  return read_header(file, tensors, err);
}

void lls_tensor_file_close(struct lls_tensor_file *file)
{
  if (file->map != NULL)
    munmap(file->map, file->bytes);
  free(file);
}

void lls_tensor_free(struct lls_tensor *t)
{
  free(t->copy);
  free(t);
}

int lls_tensor_data(struct lls_tensor *t, const void **out, struct lls_error *err)
{
  const char *mapped = (const char *)t->file->map + t->offset;
  bool aligned = (uintptr_t)mapped % t->type->bytes == 0;
  if (!aligned && t->copy == NULL) {
    t->copy = malloc(t->bytes + 1);
    if (t->copy == NULL)
      return lls_fail(err, -ENOMEM, "%s: tensor %s: no memory for an aligned copy",
                      t->file->path, t->name);
    memcpy(t->copy, mapped, t->bytes);
  }
  *out = aligned ? mapped : t->copy;
  return 0;
}
