/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the tensors of a model folder: model.safetensors, or the shards listed in
 * model.safetensors.index.json. Files are mapped, never read as a whole. Headers are
 * untrusted: every size, offset, type and shape is checked against the file at open, so
 * that views need no further checks.
 *
 * The layout of a file: length of the header (8 bytes, little endian); the header
 * (JSON: name -> dtype, shape, data_offsets); the tensors, without gaps.
 */
#ifndef LLS_MODEL_SAFETENSORS_H
#define LLS_MODEL_SAFETENSORS_H

#include "core/base/error.h"
#include "core/device/device.h"

struct lls_checkpoint;
struct lls_safetensors;

/* Opens a folder. Returns 0; -ENOENT (no such file) or -EINVAL (a file that contradicts
 * itself), with file and tensor in err. */
int lls_safetensors_open(const char *folder, struct lls_safetensors **out,
                         struct lls_error *err);
void lls_safetensors_close(struct lls_safetensors *); /* NULL is allowed */
/* Opens a folder as a checkpoint for the engine. */
int lls_safetensors_checkpoint(const char *folder, struct lls_checkpoint **out,
                               struct lls_error *err);

bool lls_safetensors_has(const struct lls_safetensors *, const char *name);

/*
 * Gets the (rows, columns) tensor with that name; a tensor of one dimension is one row.
 * Returns 0; -ENOENT if it is missing; -EINVAL if its shape differs; -ENOTSUP if it is
 * not F32, F16 or BF16. The view's data stays mapped until close.
 */
int lls_safetensors_view(struct lls_safetensors *, const char *name, size_t rows,
                         size_t columns, struct lls_tensor_view *out,
                         struct lls_error *err);

/* Releases the pages read so far from this process; they are read from the file again
 * when accessed. */
void lls_safetensors_drop_pages(const struct lls_safetensors *);

#endif
