/* SPDX-License-Identifier: Apache-2.0 */
/* Opens one file and reads its metadata; see gguf_file.h. */
#include "core/model/gguf_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/file.h"
#include "core/model/gguf_cursor.h"

#define MAX_ALIGNMENT (1u << 20)

/* ---- metadata ------------------------------------------------------------------- */

static const size_t sizes[LLS_GGUF_TYPES] = {
    [LLS_GGUF_U8] = 1,  [LLS_GGUF_I8] = 1,   [LLS_GGUF_U16] = 2, [LLS_GGUF_I16] = 2,
    [LLS_GGUF_U32] = 4, [LLS_GGUF_I32] = 4,  [LLS_GGUF_F32] = 4, [LLS_GGUF_U64] = 8,
    [LLS_GGUF_I64] = 8, [LLS_GGUF_BOOL] = 1, [LLS_GGUF_F64] = 8,
};

static int skip_items(struct lls_gguf_cursor *c, struct lls_gguf_entry *e)
{
  const unsigned char *ignored;
  uint64_t length;
  e->data = c->at;
  if (e->type != LLS_GGUF_STRING && e->n > (size_t)(c->end - c->at) / sizes[e->type])
    return lls_fail(c->err, -EINVAL,
                    "%s: %.128s claims %" PRIu64 " numbers, more than the file has: it "
                    "was cut off or is damaged",
                    c->file->path, e->key, e->n);
  if (e->type != LLS_GGUF_STRING)
    return lls_gguf_take(c, e->n * sizes[e->type], e->key) != NULL ? 0 : -EINVAL;
  int rc = 0;
  for (uint64_t i = 0; rc == 0 && i < e->n; i++)
    rc = lls_gguf_take_text(c, &ignored, &length, e->key);
  return rc;
}

static int bad_type(const struct lls_gguf_cursor *c, const struct lls_gguf_entry *e,
                    uint32_t type)
{
  return lls_fail(c->err, -EINVAL, "%s: %.128s is of a type that is not known (%u)%s",
                  c->file->path, e->key, type,
                  type == LLS_GGUF_ARRAY ? ": an array of arrays" : "");
}

static int read_value(struct lls_gguf_cursor *c, struct lls_gguf_entry *e)
{
  uint32_t type;
  int rc = lls_gguf_take_u32(c, &type, e->key);
  e->n = 1;
  e->is_array = rc == 0 && type == LLS_GGUF_ARRAY;
  if (e->is_array)
    rc = lls_gguf_take_u32(c, &type, e->key);
  if (rc == 0 && e->is_array)
    rc = lls_gguf_take_u64(c, &e->n, e->key);
  if (rc < 0)
    return rc;
  if (type >= LLS_GGUF_TYPES || type == LLS_GGUF_ARRAY)
    return bad_type(c, e, type);
  e->type = (enum lls_gguf_type)type;
  return skip_items(c, e);
}

static int read_entry(struct lls_gguf_cursor *c, struct lls_gguf_file *file)
{
  const unsigned char *key;
  uint64_t length;
  int rc = lls_gguf_take_name(c, &key, &length, "a metadata key");
  if (rc < 0)
    return rc;
  struct lls_gguf_entry *e = calloc(1, sizeof *e + length + 1), *twin;
  if (e == NULL)
    return lls_fail(c->err, -ENOMEM, "%s: out of memory", file->path);
  memcpy(e->key, key, length);
  rc = read_value(c, e);
  HASH_FIND_STR(file->entries, e->key, twin);
  if (rc == 0 && twin != NULL)
    rc = lls_fail(c->err, -EINVAL, "%s: %.128s is there twice", file->path, e->key);
  if (rc < 0) {
    free(e);
    return rc;
  }
  HASH_ADD_STR(file->entries, key, e);
  if (e->hh.tbl != NULL)
    return 0;
  free(e);
  return lls_fail(c->err, -ENOMEM, "%s: out of memory", file->path);
}

/* ---- opening a file ------------------------------------------------------------- */

static int read_counts(struct lls_gguf_cursor *c, uint64_t *n_tensors,
                       uint64_t *n_entries)
{
  uint32_t version;
  const unsigned char *magic = lls_gguf_take(c, 4, "its first bytes");
  if (magic == NULL || memcmp(magic, "GGUF", 4) != 0)
    return lls_fail(c->err, -EINVAL,
                    "%s: this is no GGUF file: it should begin with "
                    "\"GGUF\"",
                    c->file->path);
  int rc = lls_gguf_take_u32(c, &version, "its version");
  if (rc < 0)
    return rc;
  if (version != 2 && version != 3)
    return lls_fail(c->err, -ENOTSUP, "%s: GGUF of version %u%s; 2 and 3 can be read",
                    c->file->path, version,
                    (version & 0xffff) == 0 ? ", or a big-endian file" : "");
  rc = lls_gguf_take_u64(c, n_tensors, "its counts");
  return rc < 0 ? rc : lls_gguf_take_u64(c, n_entries, "its counts");
}

static int read_header(struct lls_gguf_file *file, struct lls_error *err)
{
  struct lls_gguf_cursor c = {file, file->map, file->map + file->bytes, err};
  uint64_t n_tensors, n_entries;
  int rc = read_counts(&c, &n_tensors, &n_entries);
  for (uint64_t i = 0; rc == 0 && i < n_entries; i++)
    rc = read_entry(&c, file);
  if (rc < 0)
    return rc;
  int64_t alignment = lls_gguf_integer(file, "general.alignment", 32);
  if (alignment < 1 || alignment > MAX_ALIGNMENT || (alignment & (alignment - 1)) != 0)
    return lls_fail(err, -EINVAL,
                    "%s: general.alignment is %" PRId64 ", not a power of "
                    "two up to %u",
                    file->path, alignment, MAX_ALIGNMENT);
  return lls_gguf_read_tensors(&c, file, n_tensors, (size_t)alignment);
}

int lls_gguf_file_open(const char *path, struct lls_gguf_file **out,
                       struct lls_error *err)
{
  struct lls_gguf_file *file = calloc(1, sizeof *file);
  if (file == NULL || (file->path = strdup(path)) == NULL) {
    free(file);
    return lls_fail(err, -ENOMEM, "%s: out of memory", path);
  }
  int rc = lls_file_map(path, &file->map, &file->bytes, err);
  if (rc == 0)
    rc = read_header(file, err);
  if (rc < 0) {
    lls_gguf_file_close(file);
    return rc;
  }
  *out = file;
  return 0;
}

void lls_gguf_file_close(struct lls_gguf_file *file)
{
  if (file == NULL)
    return;
  struct lls_gguf_entry *entry, *next_entry;
  HASH_ITER(hh, file->entries, entry, next_entry)
  {
    HASH_DEL(file->entries, entry);
    free(entry);
  }
  struct lls_gguf_tensor *tensor, *next;
  HASH_ITER(hh, file->tensors, tensor, next)
  {
    HASH_DEL(file->tensors, tensor);
    free(tensor);
  }
  if (file->map != NULL)
    munmap(file->map, file->bytes);
  free(file->path);
  free(file);
}
