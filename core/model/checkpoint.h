/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model's tensors by name, whatever its files are: safetensors.c reads folders, gguf.c
 * GGUF files. Names are those of Hugging Face's folders; a format with other names has
 * them translated, so that an architecture is described once.
 */
#ifndef LLS_MODEL_CHECKPOINT_H
#define LLS_MODEL_CHECKPOINT_H

#include "core/base/error.h"
#include "core/device/device.h"

struct lls_checkpoint;

/* The operations of a format; a reader has a struct lls_checkpoint as its first member.
 */
struct lls_checkpoint_ops {
  bool (*has)(const struct lls_checkpoint *, const char *name);
  int (*view)(struct lls_checkpoint *, const char *name, size_t rows, size_t columns,
              struct lls_tensor_view *out, struct lls_error *err);
  void (*drop_pages)(struct lls_checkpoint *);
  void (*close)(struct lls_checkpoint *);
  /* NULL: the format has no tensors of bytes */
  int (*bytes)(struct lls_checkpoint *, const char *name, size_t n, const void **out,
               struct lls_error *err);
};

struct lls_checkpoint {
  const struct lls_checkpoint_ops *ops;
};

/* A folder or a .gguf file: 0, -ENOENT (no such file), -EINVAL (a file that lies),
 * -ENOTSUP, with file and tensor named. */
int lls_checkpoint_open(const char *path, struct lls_checkpoint **out,
                        struct lls_error *err);
void lls_checkpoint_close(struct lls_checkpoint *); /* NULL is fine */

bool lls_checkpoint_has(const struct lls_checkpoint *, const char *name);

/*
 * The (rows, columns) tensor of that name; a tensor of one dimension is one row. -ENOENT
 * if missing, -EINVAL if its shape differs, -ENOTSUP if it is of a type that no weight
 * can have. The view's data is valid until pages are dropped or the checkpoint is closed;
 * of a tensor that is used as a table, until close.
 */
int lls_checkpoint_view(struct lls_checkpoint *, const char *name, size_t rows,
                        size_t columns, struct lls_tensor_view *out,
                        struct lls_error *err);

/* The n bytes of a tensor of bytes, whatever its shape; errors and validity as view's. */
int lls_checkpoint_bytes(struct lls_checkpoint *, const char *name, size_t n,
                         const void **out, struct lls_error *err);

/* Pages read so far leave this process; they come back from the file when touched. */
void lls_checkpoint_drop_pages(struct lls_checkpoint *);

#endif
