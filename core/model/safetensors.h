/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the tensors of a model folder: model.safetensors, or the shards that
 * model.safetensors.index.json names. Files are mapped, never read as a whole, and
 * nothing in a header is believed: every size, offset, type and shape is checked against
 * the file at open, so that a view can be used without another thought.
 *
 * The layout of a file: length of the header (8 bytes, little endian), the header (JSON:
 * name -> dtype, shape, data_offsets), the tensors back to back without a hole.
 */
#ifndef LLS_MODEL_SAFETENSORS_H
#define LLS_MODEL_SAFETENSORS_H

#include "core/base/error.h"
#include "core/device/device.h"

struct lls_checkpoint;
struct lls_safetensors;

/* 0, -ENOENT (no such file), -EINVAL (a file that lies), with file and tensor named. */
int lls_safetensors_open(const char *folder, struct lls_safetensors **out,
                         struct lls_error *err);
void lls_safetensors_close(struct lls_safetensors *); /* NULL is fine */
/* The same as what the engine loads from. */
int lls_safetensors_checkpoint(const char *folder, struct lls_checkpoint **out,
                               struct lls_error *err);

bool lls_safetensors_has(const struct lls_safetensors *, const char *name);

/*
 * The (rows, columns) tensor of that name; a tensor of one dimension is one row. -ENOENT
 * if missing, -EINVAL if its shape differs, -ENOTSUP if it isn't F32, F16 or BF16. The
 * view's data is mapped until close.
 */
int lls_safetensors_view(struct lls_safetensors *, const char *name, size_t rows,
                         size_t columns, struct lls_tensor_view *out,
                         struct lls_error *err);

/* Pages read so far leave this process; they come back from the file when touched. */
void lls_safetensors_drop_pages(const struct lls_safetensors *);

#endif
