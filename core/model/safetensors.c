/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a folder, and finding tensors by name; safetensors_file.c reads one
 * file. */
#include "core/model/safetensors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/model/checkpoint.h"
#include "core/model/json.h"
#include "core/model/quantisation.h"
#include "core/model/safetensors_file.h"

/* A matrix assembled from several tensors, for views of it. */
struct coded_matrix {
  struct coded_matrix *next;
  struct lls_coded coded;
};

struct lls_safetensors {
  struct lls_checkpoint base;
  struct lls_tensor_file *files;
  struct lls_tensor *tensors; /* uthash by name */
  struct lls_quantisation quantisation;
  struct coded_matrix *matrices;
};

bool lls_safetensors_has(const struct lls_safetensors *st, const char *name)
{
  struct lls_tensor *found;
  HASH_FIND_STR(st->tensors, name, found);
  return found != NULL;
}

static int open_file(struct lls_safetensors *st, const char *folder, const char *name,
                     struct lls_error *err)
{
  struct lls_tensor_file *file = NULL;
  int rc = lls_tensor_file_open(folder, name, &st->tensors, &file, err);
  if (file != NULL)
    LL_PREPEND(st->files, file);
  return rc;
}

static bool is_open(const struct lls_safetensors *st, const char *name)
{
  const struct lls_tensor_file *file;
  LL_FOREACH (st->files, file) {
    if (strcmp(file->name, name) == 0)
      return true;
  }
  return false;
}

/* Opens the shard that should contain the tensor, unless it is open, and checks that it
 * does. */
static int open_shard(struct lls_safetensors *st, const char *folder,
                      const struct lls_json *index, const char *tensor, const char *shard,
                      struct lls_error *err)
{
  if (shard == NULL || shard[0] == '\0' || strchr(shard, '/') != NULL)
    return lls_fail(err, -EINVAL, "%s: %.128s: should name a file of the folder",
                    index->file, tensor);
  int rc = is_open(st, shard) ? 0 : open_file(st, folder, shard, err);
  if (rc < 0)
    return rc;
  struct lls_tensor *found;
  HASH_FIND_STR(st->tensors, tensor, found);
  if (found == NULL || strcmp(found->file->name, shard) != 0)
    return lls_fail(err, -EINVAL, "%s: %.128s is not in %.128s as it says", index->file,
                    tensor, shard);
  return 0;
}

static int open_shards(struct lls_safetensors *st, const char *folder,
                       const struct lls_json *index, struct lls_error *err)
{
  json_t *map = lls_json_get(index, "weight_map");
  if (!json_is_object(map))
    return lls_fail(err, -EINVAL,
                    "%s: \"weight_map\" should map tensor names to file names",
                    index->file);
  const char *tensor;
  json_t *shard;
  json_object_foreach(map, tensor, shard)
  {
    int rc = open_shard(st, folder, index, tensor, json_string_value(shard), err);
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* Reads the quantisation in config.json, if that file exists. */
static int read_quantisation(struct lls_safetensors *st, const char *folder,
                             struct lls_error *err)
{
  struct lls_json config;
  int rc = lls_json_read(folder, "config.json", &config, err);
  if (rc < 0)
    return rc == -ENOENT ? 0 : rc;
  rc = lls_quantisation_bring(folder, &config, err);
  if (rc == 0)
    rc = lls_quantisation_read(&config, &st->quantisation, err);
  lls_json_close(&config);
  return rc;
}

static int open_folder(struct lls_safetensors *st, const char *folder,
                       struct lls_error *err)
{
  struct lls_json index;
  int rc = open_file(st, folder, "model.safetensors", err);
  if (rc != -ENOENT)
    return rc;
  rc = lls_json_read(folder, "model.safetensors.index.json", &index, err);
  if (rc == -ENOENT)
    return lls_fail(err, rc,
                    "%s: neither model.safetensors nor model.safetensors.index.json is "
                    "there; weights in another format have to be converted",
                    folder);
  if (rc < 0)
    return rc;
  rc = open_shards(st, folder, &index, err);
  lls_json_close(&index);
  return rc;
}

static const struct lls_checkpoint_ops ops;

int lls_safetensors_open(const char *folder, struct lls_safetensors **out,
                         struct lls_error *err)
{
  struct lls_safetensors *st = calloc(1, sizeof *st);
  if (st == NULL)
    return lls_fail(err, -ENOMEM, "%s: out of memory", folder);
  st->base.ops = &ops;
  int rc = open_folder(st, folder, err);
  if (rc == 0)
    rc = read_quantisation(st, folder, err);
  if (rc < 0) {
    lls_safetensors_close(st);
    return rc;
  }
  *out = st;
  return 0;
}

void lls_safetensors_close(struct lls_safetensors *st)
{
  if (st == NULL)
    return;
  struct lls_tensor *tensor, *next;
  HASH_ITER(hh, st->tensors, tensor, next)
  {
    HASH_DEL(st->tensors, tensor);
    lls_tensor_free(tensor);
  }
  struct coded_matrix *matrix, *next_matrix;
  LL_FOREACH_SAFE (st->matrices, matrix, next_matrix) {
    free(matrix);
  }
  struct lls_tensor_file *file, *next_file;
  LL_FOREACH_SAFE (st->files, file, next_file) {
    lls_tensor_file_close(file);
  }
  free(st);
}

static int check_shape(const struct lls_tensor *t, size_t rows, size_t columns,
                       struct lls_error *err)
{
  bool vector = t->n_dims == 1 && rows == 1 && t->shape[0] == columns;
  bool matrix = t->n_dims == 2 && t->shape[0] == rows && t->shape[1] == columns;
  bool number = t->n_dims == 0 && rows == 1 && columns == 1;
  /* matrices on top of each other */
  bool stack = t->n_dims == 3 && t->shape[0] > 0 && rows % t->shape[0] == 0 &&
               t->shape[1] == rows / t->shape[0] && t->shape[2] == columns;
  if (vector || matrix || number || stack)
    return 0;
  char found[64], wanted[64];
  const uint64_t shape[2] = {rows, columns};
  lls_tensor_shape_text(t->shape, t->n_dims, found, sizeof found);
  lls_tensor_shape_text(rows == 1 ? shape + 1 : shape, rows == 1 ? 1 : 2, wanted,
                        sizeof wanted);
  return lls_fail(err, -EINVAL, "%s: tensor %s has shape %s, but config.json makes it %s",
                  t->file->path, t->name, found, wanted);
}

static int find_stored(void *context, const char *name, struct lls_stored *out,
                       struct lls_error *err)
{
  struct lls_safetensors *st = context;
  struct lls_tensor *t;
  HASH_FIND_STR(st->tensors, name, t);
  if (t == NULL)
    return -ENOENT;
  *out = (struct lls_stored){.type = t->type->name, .bytes = t->bytes};
  for (uint32_t i = 0; i < t->n_dims; i++) {
    if (t->n_dims > 2 && t->shape[i] == 1)
      continue;
    if (out->n_dims < 2)
      out->shape[out->n_dims] = t->shape[i];
    out->n_dims++;
  }
  return lls_tensor_data(t, &out->data, err);
}

/* Returns -ENOENT if the matrix is not quantised. */
static int view_coded(struct lls_safetensors *st, const char *name, size_t rows,
                      size_t columns, struct lls_tensor_view *out, struct lls_error *err)
{
  const struct lls_stored_source source = {st, find_stored};
  struct lls_coded coded;
  int rc = lls_quantisation_matrix(&st->quantisation, name, rows, columns, &source,
                                   &coded, err);
  if (rc < 0)
    return rc;
  struct coded_matrix *matrix = malloc(sizeof *matrix);
  if (matrix == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  matrix->coded = coded;
  LL_PREPEND(st->matrices, matrix);
  *out = (struct lls_tensor_view){.data = &matrix->coded,
                                  .dtype = LLS_CODED,
                                  .rows = rows,
                                  .columns = columns,
                                  .row_stride = columns};
  return 0;
}

int lls_safetensors_view(struct lls_safetensors *st, const char *name, size_t rows,
                         size_t columns, struct lls_tensor_view *out,
                         struct lls_error *err)
{
  struct lls_tensor *t;
  int rc = view_coded(st, name, rows, columns, out, err);
  if (rc != -ENOENT)
    return rc;
  HASH_FIND_STR(st->tensors, name, t);
  if (t == NULL)
    return lls_fail(err, -ENOENT, "%s: tensor %s is missing",
                    st->files == NULL ? "model" : st->files->folder, name);
  if (!t->type->is_weight)
    return lls_fail(err, -ENOTSUP,
                    "%s: tensor %s is of type %s; F32, F16 and BF16 can be used",
                    t->file->path, name, t->type->name);
  rc = check_shape(t, rows, columns, err);
  const void *data = NULL;
  if (rc == 0)
    rc = lls_tensor_data(t, &data, err);
  if (rc < 0)
    return rc;
  *out = (struct lls_tensor_view){
      .data = data,
      .dtype = t->type->dtype,
      .rows = rows,
      .columns = columns,
      .row_stride = columns,
  };
  return 0;
}

void lls_safetensors_drop_pages(const struct lls_safetensors *st)
{
  const struct lls_tensor_file *file;
  LL_FOREACH (st->files, file) {
    madvise(file->map, file->bytes, MADV_DONTNEED);
  }
}

/* ---- the checkpoint interface --------------------------------------------------- */

static bool has(const struct lls_checkpoint *checkpoint, const char *name)
{
  return lls_safetensors_has((const struct lls_safetensors *)checkpoint, name);
}

static int view(struct lls_checkpoint *checkpoint, const char *name, size_t rows,
                size_t columns, struct lls_tensor_view *out, struct lls_error *err)
{
  return lls_safetensors_view((struct lls_safetensors *)checkpoint, name, rows, columns,
                              out, err);
}

static void drop_pages(struct lls_checkpoint *checkpoint)
{
  lls_safetensors_drop_pages((struct lls_safetensors *)checkpoint);
}

static void close_checkpoint(struct lls_checkpoint *checkpoint)
{
  lls_safetensors_close((struct lls_safetensors *)checkpoint);
}

static int bytes(struct lls_checkpoint *checkpoint, const char *name, size_t n,
                 const void **out, struct lls_error *err)
{
  struct lls_safetensors *st = (struct lls_safetensors *)checkpoint;
  struct lls_tensor *t;
  HASH_FIND_STR(st->tensors, name, t);
  if (t == NULL)
    return lls_fail(err, -ENOENT, "%s: tensor %s is missing",
                    st->files == NULL ? "model" : st->files->folder, name);
  bool whole = strcmp(t->type->name, "U8") == 0 || strcmp(t->type->name, "I64") == 0;
  if (!whole || t->bytes != n)
    return lls_fail(
        err, -EINVAL,
        "%s: tensor %s has %zu bytes as %s, but config.json makes it %zu as U8 or I64",
        t->file->path, name, t->bytes, t->type->name, n);
  return lls_tensor_data(t, out, err);
}

static const struct lls_checkpoint_ops ops = {has, view, drop_pages, close_checkpoint,
                                              bytes};

int lls_safetensors_checkpoint(const char *folder, struct lls_checkpoint **out,
                               struct lls_error *err)
{
  struct lls_safetensors *st;
  int rc = lls_safetensors_open(folder, &st, err);
  if (rc == 0)
    *out = &st->base;
  return rc;
}
