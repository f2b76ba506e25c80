/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model's tensors by name, independent of the file format: safetensors.c reads
 * folders, gguf.c GGUF files. Names are those of Hugging Face's folders; a format with
 * other names translates them, so that each architecture is described once.
 */
#ifndef LLS_MODEL_CHECKPOINT_H
#define LLS_MODEL_CHECKPOINT_H

#include "core/base/error.h"
#include "core/device/device.h"

struct lls_checkpoint;

/* The operations of a format; its reader has a struct lls_checkpoint as first member. */
struct lls_checkpoint_ops {
  bool (*has)(const struct lls_checkpoint *, const char *name);
  int (*view)(struct lls_checkpoint *, const char *name, size_t rows, size_t columns,
              struct lls_tensor_view *out, struct lls_error *err);
  void (*drop_pages)(struct lls_checkpoint *);
  void (*close)(struct lls_checkpoint *);
  /* NULL: the format has no byte tensors */
  int (*bytes)(struct lls_checkpoint *, const char *name, size_t n, const void **out,
               struct lls_error *err);
};

struct lls_checkpoint {
  const struct lls_checkpoint_ops *ops;
};

/* Opens a folder or a .gguf file. Returns 0; -ENOENT (no such file), -EINVAL (a file
 * that contradicts itself) or -ENOTSUP, with file and tensor in err. */
int lls_checkpoint_open(const char *path, struct lls_checkpoint **out,
                        struct lls_error *err);
void lls_checkpoint_close(struct lls_checkpoint *); /* NULL is allowed */

bool lls_checkpoint_has(const struct lls_checkpoint *, const char *name);

/*
 * Gets the (rows, columns) tensor with that name; a tensor of one dimension is one row.
 * Returns 0; -ENOENT if it is missing; -EINVAL if its shape differs; -ENOTSUP if its
 * type cannot be a weight's. The view's data is valid until pages are dropped or the
 * checkpoint is closed; the data of a table until it is closed.
 */
int lls_checkpoint_view(struct lls_checkpoint *, const char *name, size_t rows,
                        size_t columns, struct lls_tensor_view *out,
                        struct lls_error *err);

/* Gets the n bytes of a byte tensor of any shape; errors and validity as for views. */
int lls_checkpoint_bytes(struct lls_checkpoint *, const char *name, size_t n,
                         const void **out, struct lls_error *err);

/* Releases the pages read so far from this process; they are read from the file again
 * when accessed. */
void lls_checkpoint_drop_pages(struct lls_checkpoint *);

#endif
