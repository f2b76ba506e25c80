/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a model and its tensors as views; see gguf.h. */
#include "core/model/gguf.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <utlist.h>

#include "core/device/quantised.h"
#include "core/model/gguf_coded.h"
#include "core/model/safetensors_file.h"

#define MAX_FILES 999

struct gguf_copy {
  struct gguf_copy *next;
  _Alignas(max_align_t) unsigned char data[];
};

bool lls_is_gguf(const char *path)
{
  struct stat st;
  size_t length = path != NULL ? strlen(path) : 0;
  return length > 5 && strcasecmp(path + length - 5, ".gguf") == 0 &&
         (stat(path, &st) < 0 || !S_ISDIR(st.st_mode));
}

/* ---- opening -------------------------------------------------------------------- */

/* Makes the path of another part of a split set: of "x-00001-of-00003.gguf" and 2 the
 * third file's. The first file's name has the room for it. */
static int name_part(const struct lls_gguf_file *first, size_t part, size_t n, char *path,
                     size_t size, struct lls_error *err)
{
  char wanted[32], own[32];
  size_t length = strlen(first->path), tail;
  snprintf(own, sizeof own, "-00001-of-%05zu.gguf", n);
  snprintf(wanted, sizeof wanted, "-%05zu-of-%05zu.gguf", part + 1, n);
  tail = strlen(own);
  if (length < tail || length >= size || strcmp(first->path + length - tail, own) != 0)
    return lls_fail(err, -EINVAL,
                    "%s: it is the first of %zu files, so its name should end with %s",
                    first->path, n, own);
  memcpy(path, first->path, length - tail);
  strcpy(path + length - tail, wanted);
  return 0;
}

static int open_part(struct lls_gguf *g, size_t part, size_t n, struct lls_error *err)
{
  char path[4096];
  int rc = name_part(g->files[0], part, n, path, sizeof path, err);
  if (rc == 0)
    rc = lls_gguf_file_open(path, &g->files[part], err);
  if (rc < 0)
    return rc;
  g->n_files++;
  if (lls_gguf_integer(g->files[part], "split.no", -1) == (int64_t)part)
    return 0;
  return lls_fail(err, -EINVAL, "%s: its split.no is not %zu, as its name has it", path,
                  part);
}

static int open_files(struct lls_gguf *g, const char *path, struct lls_error *err)
{
  g->files = calloc(MAX_FILES, sizeof(struct lls_gguf_file *));
  if (g->files == NULL)
    return lls_fail(err, -ENOMEM, "%s: out of memory", path);
  int rc = lls_gguf_file_open(path, &g->files[0], err);
  if (rc < 0)
    return rc;
  g->n_files = 1;
  int64_t n = lls_gguf_integer(g->files[0], "split.count", 1);
  int64_t part = lls_gguf_integer(g->files[0], "split.no", 0);
  if (part != 0)
    return lls_fail(err, -EINVAL,
                    "%s: file %" PRId64 " of a set of %" PRId64 "; name the first", path,
                    part + 1, n);
  if (n < 0 || n > MAX_FILES)
    return lls_fail(err, -EINVAL, "%s: split.count is %" PRId64 ", not 1 to %d", path, n,
                    MAX_FILES);
  for (size_t i = 1; rc == 0 && i < (size_t)n; i++)
    rc = open_part(g, i, (size_t)n, err);
  return rc;
}

static const struct lls_checkpoint_ops ops;

int lls_gguf_open(const char *path, struct lls_gguf **out, struct lls_error *err)
{
  struct lls_gguf *g = calloc(1, sizeof *g);
  if (g == NULL)
    return lls_fail(err, -ENOMEM, "%s: out of memory", path);
  g->base.ops = &ops;
  int rc = open_files(g, path, err);
  if (rc == 0)
    rc = lls_gguf_architecture_of(g->files[0], &g->architecture, err);
  if (rc < 0) {
    lls_gguf_close(g);
    return rc;
  }
  *out = g;
  return 0;
}

static void free_copies(struct lls_gguf *g)
{
  struct gguf_copy *copy, *next;
  LL_FOREACH_SAFE (g->copies, copy, next) {
    free(copy);
  }
  g->copies = NULL;
}

void lls_gguf_close(struct lls_gguf *g)
{
  if (g == NULL)
    return;
  free_copies(g);
  for (size_t i = 0; i < g->n_files; i++)
    lls_gguf_file_close(g->files[i]);
  free(g->files);
  free(g);
}

/* ---- tensors -------------------------------------------------------------------- */

static bool has(const struct lls_checkpoint *checkpoint, const char *name)
{
  const struct lls_gguf *g = (const struct lls_gguf *)checkpoint;
  char own[128];
  int64_t expert;
  return lls_gguf_name(g->architecture, name, own, sizeof own, &expert) &&
         lls_gguf_tensor(g, own) != NULL;
}

static bool has_shape(const struct lls_gguf_tensor *t, const uint64_t *shape, size_t n)
{
  return t->n_dims == n && memcmp(t->shape, shape, n * sizeof *shape) == 0;
}

/* Checks a tensor's shape. experts = 0: it is not a stack of experts' matrices. */
static int check_shape(const struct lls_gguf *g, const struct lls_gguf_tensor *t,
                       uint64_t experts, size_t rows, size_t columns,
                       struct lls_error *err)
{
  const uint64_t matrix[] = {experts, rows, columns}, vector[] = {experts, columns};
  size_t skip = experts == 0;
  bool heads = skip > 0 && t->n_dims == 3 && t->shape[1] > 0 && rows % t->shape[1] == 0 &&
               t->shape[0] == rows / t->shape[1] &&
               t->shape[2] == columns; /* a matrix of each head, as one */
  bool folded = skip > 0 && rows == 1 && t->n_dims == 2 &&
                t->shape[0] * t->shape[1] == columns; /* a vector, in groups */
  if (heads || folded || has_shape(t, matrix + skip, 3 - skip) ||
      (rows == 1 && has_shape(t, vector + skip, 2 - skip)))
    return 0;
  char found[96], wanted[96];
  lls_tensor_shape_text(t->shape, t->n_dims, found, sizeof found);
  lls_tensor_shape_text((rows == 1 ? vector : matrix) + skip, (rows == 1 ? 2 : 3) - skip,
                        wanted, sizeof wanted);
  return lls_fail(err, -EINVAL,
                  "%s: tensor %s has shape %s, but the file's metadata makes it %s",
                  g->files[0]->path, t->name, found, wanted);
}

int64_t lls_gguf_experts(const struct lls_gguf *g)
{
  char key[96];
  snprintf(key, sizeof key, "%s.expert_count", g->architecture->name);
  return lls_gguf_integer(g->files[0], key, 0);
}

/* Finds the matrix of one expert in a stack; expert -1: the whole tensor. */
static int find_part(const struct lls_gguf *g, const struct lls_gguf_tensor *t,
                     int64_t expert, size_t rows, size_t columns, const void **data,
                     struct lls_error *err)
{
  int64_t experts = expert < 0 ? 0 : lls_gguf_experts(g);
  if (expert >= 0 && experts == 0 && t->n_dims == 3) /* matrices with numbers */
    experts = (int64_t)t->shape[0];
  if (expert >= 0 && expert >= experts)
    return lls_fail(err, -EINVAL,
                    "%s: tensor %s: expert %" PRId64 " of %" PRId64 " does not exist",
                    g->files[0]->path, t->name, expert, experts);
  int rc = check_shape(g, t, (uint64_t)experts, rows, columns, err);
  *data = t->data;
  if (rc == 0 && expert > 0)
    *data = t->data + (size_t)expert * (t->bytes / (size_t)experts);
  return rc;
}

/* Converts rows of each head from pairs (0, half), (1, half + 1), ... to two halves. */
static void halve(const unsigned char *from, unsigned char *to, size_t heads,
                  size_t head_rows, size_t row_bytes)
{
  size_t half = head_rows / 2;
  for (size_t head = 0; head < heads; head++)
    for (size_t i = 0; i < head_rows; i++) {
      size_t source = head * head_rows + i, target = head * head_rows;
      target += i % 2 * half + i / 2;
      memcpy(to + target * row_bytes, from + source * row_bytes, row_bytes);
    }
}

/* Returns the number of heads whose rows are stored in pairs; 0 if the rows have the
 * graph's order. */
static size_t paired_heads(const struct lls_gguf *g, const struct lls_gguf_tensor *t)
{
  char key[96];
  const char *part = strrchr(t->name, '.');
  bool query = part != NULL && part - t->name >= 6 && memcmp(part - 6, "attn_q", 6) == 0;
  bool key_part =
      part != NULL && part - t->name >= 6 && memcmp(part - 6, "attn_k", 6) == 0;
  if (!g->architecture->pairs || (!query && !key_part))
    return 0;
  snprintf(key, sizeof key, "%s.attention.head_count", g->architecture->name);
  int64_t heads = lls_gguf_integer(g->files[0], key, 0);
  snprintf(key, sizeof key, "%s.attention.head_count_kv", g->architecture->name);
  return (size_t)(query ? heads : lls_gguf_integer(g->files[0], key, heads));
}

/* Allocates `bytes` for a copy of a tensor in the folder's layout; NULL and a sentence if
 * out of memory. */
static unsigned char *add_copy(struct lls_gguf *g, const struct lls_gguf_tensor *t,
                               size_t bytes, struct lls_error *err)
{
  struct gguf_copy *copy = malloc(sizeof *copy + bytes);
  if (copy == NULL) {
    lls_fail(err, -ENOMEM, "%s: tensor %s: out of memory", g->files[0]->path, t->name);
    return NULL;
  }
  LL_PREPEND(g->copies, copy);
  return copy->data;
}

static int reorder(struct lls_gguf *g, const struct lls_gguf_tensor *t, size_t heads,
                   const void **data, struct lls_error *err)
{
  size_t rows = t->shape[0];
  if (heads > rows / 2 || rows % (2 * heads) != 0) /* true also if there are no rows */
    return lls_fail(err, -EINVAL,
                    "%s: tensor %s has %zu rows, which %zu heads cannot share in pairs",
                    g->files[0]->path, t->name, rows, heads);
  unsigned char *copy = add_copy(g, t, t->bytes, err);
  if (copy == NULL)
    return -ENOMEM;
  halve(t->data, copy, heads, rows / heads, t->bytes / rows);
  *data = copy;
  return 0;
}

static bool is_raised(const struct lls_gguf *g, const struct lls_gguf_tensor *t)
{
  return g->architecture->raised_norms && t->n_dims == 1 && t->dtype == LLS_F32 &&
         strstr(t->name, "norm.weight") != NULL && strstr(t->name, "ssm_norm") == NULL;
}

static int lower(struct lls_gguf *g, const struct lls_gguf_tensor *t, const void **data,
                 struct lls_error *err)
{
  unsigned char *copy = add_copy(g, t, t->bytes, err);
  if (copy == NULL)
    return -ENOMEM;
  for (size_t at = 0; at < t->bytes; at += sizeof(float)) {
    float number;
    memcpy(&number, t->data + at, sizeof number);
    number -= 1;
    memcpy(copy + at, &number, sizeof number);
  }
  *data = copy;
  return 0;
}

/* Makes *data, blocks of NVFP4, a struct lls_coded. */
static int assemble(struct lls_gguf *g, const struct lls_gguf_tensor *t, int64_t expert,
                    size_t rows, size_t columns, const void **data, struct lls_error *err)
{
  unsigned char *copy = add_copy(g, t, lls_gguf_coded_bytes(rows, columns), err);
  if (copy == NULL)
    return -ENOMEM;
  const void *blocks = *data;
  *data = copy;
  return lls_gguf_make_coded(g, t, expert, blocks, rows, columns, copy, err);
}

static int view(struct lls_checkpoint *checkpoint, const char *name, size_t rows,
                size_t columns, struct lls_tensor_view *out, struct lls_error *err)
{
  struct lls_gguf *g = (struct lls_gguf *)checkpoint;
  char own[128];
  int64_t expert;
  bool known = lls_gguf_name(g->architecture, name, own, sizeof own, &expert);
  const struct lls_gguf_tensor *t = known ? lls_gguf_tensor(g, own) : NULL;
  if (t == NULL)
    return lls_fail(err, -ENOENT, "%s: tensor %s is missing", g->files[0]->path,
                    known ? own : name);
  const void *data = NULL;
  int rc = find_part(g, t, expert, rows, columns, &data, err);
  size_t heads = paired_heads(g, t);
  if (rc == 0 && heads > 0)
    rc = reorder(g, t, heads, &data, err);
  else if (rc == 0 && is_raised(g, t))
    rc = lower(g, t, &data, err);
  if (rc == 0 && t->dtype == LLS_CODED)
    rc = assemble(g, t, expert, rows, columns, &data, err);
  if (rc < 0)
    return rc;
  *out = (struct lls_tensor_view){
      .data = data,
      .dtype = t->dtype,
      .rows = rows,
      .columns = columns,
      .row_stride = columns,
  };
  return 0;
}

static void drop_pages(struct lls_checkpoint *checkpoint)
{
  struct lls_gguf *g = (struct lls_gguf *)checkpoint;
  free_copies(g);
  for (size_t i = 0; i < g->n_files; i++)
    madvise(g->files[i]->map, g->files[i]->bytes, MADV_DONTNEED);
}

static void close_checkpoint(struct lls_checkpoint *checkpoint)
{
  lls_gguf_close((struct lls_gguf *)checkpoint);
}

static const struct lls_checkpoint_ops ops = {has, view, drop_pages, close_checkpoint,
                                              NULL};

int lls_gguf_checkpoint(const char *path, struct lls_checkpoint **out,
                        struct lls_error *err)
{
  struct lls_gguf *g;
  int rc = lls_gguf_open(path, &g, err);
  if (rc == 0)
    *out = &g->base;
  return rc;
}
