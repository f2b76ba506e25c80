/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the reader for a path; see checkpoint.h. */
#include "core/model/checkpoint.h"

#include <errno.h>

#include "core/model/gguf.h"
#include "core/model/safetensors.h"

int lls_checkpoint_open(const char *path, struct lls_checkpoint **out,
                        struct lls_error *err)
{
  return lls_is_gguf(path) ? lls_gguf_checkpoint(path, out, err)
                           : lls_safetensors_checkpoint(path, out, err);
}

void lls_checkpoint_close(struct lls_checkpoint *checkpoint)
{
  if (checkpoint != NULL)
    checkpoint->ops->close(checkpoint);
}

bool lls_checkpoint_has(const struct lls_checkpoint *checkpoint, const char *name)
{
  return checkpoint->ops->has(checkpoint, name);
}

int lls_checkpoint_view(struct lls_checkpoint *checkpoint, const char *name, size_t rows,
                        size_t columns, struct lls_tensor_view *out,
                        struct lls_error *err)
{
  return checkpoint->ops->view(checkpoint, name, rows, columns, out, err);
}

int lls_checkpoint_bytes(struct lls_checkpoint *checkpoint, const char *name, size_t n,
                         const void **out, struct lls_error *err)
{
  if (checkpoint->ops->bytes == NULL)
    return lls_fail(err, -ENOTSUP, "%s is read from safetensors only", name);
  return checkpoint->ops->bytes(checkpoint, name, n, out, err);
}

void lls_checkpoint_drop_pages(struct lls_checkpoint *checkpoint)
{
  checkpoint->ops->drop_pages(checkpoint);
}
