/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVFP4 in GGUF files: blocks of 64 elements, four scales of e4m3 and then four times 16
 * codes of e2m1, the first eight in the low bits. A whole matrix, or each expert of a
 * stack, may be multiplied by a number of f32 in a tensor of its own (NAME.scale). It is
 * read as quantised folders are, so its type is LLS_CODED; used by gguf.c only.
 */
#ifndef LLS_MODEL_GGUF_CODED_H
#define LLS_MODEL_GGUF_CODED_H

#include "core/device/coded.h"
#include "core/model/gguf.h"
#include "core/model/gguf_cursor.h"

#define LLS_NVFP4_BLOCK 64 /* elements; 36 bytes */

/* Returns the bytes of memory that a matrix takes. */
size_t lls_gguf_coded_bytes(size_t rows, size_t columns);

/* Makes a matrix in that memory, which is aligned for any type, of the tensor's blocks
 * from `blocks` on; expert is -1 for a tensor that is no stack. Returns 0, or -EINVAL for
 * a scale of another type or number. */
int lls_gguf_make_coded(const struct lls_gguf *, const struct lls_gguf_tensor *,
                        int64_t expert, const void *blocks, size_t rows, size_t columns,
                        void *memory, struct lls_error *err);

#endif
