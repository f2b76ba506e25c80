/* SPDX-License-Identifier: Apache-2.0 */
/* Loads one tensor, or a few stacked ones, onto the device; used by weights.c only. */
#ifndef LLS_ENGINE_TENSOR_LOADER_H
#define LLS_ENGINE_TENSOR_LOADER_H

#include "core/engine/shard.h"
#include "core/engine/weights.h"
#include "core/model/architecture.h"

struct lls_loader {
  struct lls_weights *w;
  const struct lls_weights_source *source;
  const struct lls_model_config *config; /* of the whole model */
  const struct lls_shard *shard;         /* what of it is loaded */
  const struct lls_tensor_names *names;
  const char *prefix;
  struct lls_device *device;
  size_t total, done; /* numbers in matrices */
  size_t available;   /* bytes of memory before loading */
  struct lls_error *err;
};

/* One tensor of a stacked matrix. */
struct lls_part {
  const char *name; /* without layer and suffix */
  struct lls_range rows;
};

#define LLS_MAX_PARTS 3
#define LLS_NO_LAYER  (-1)

/* -ENOMEM if the matrices, at so many bytes a number, do not fit beside the rest. */
int lls_loader_check_memory(const struct lls_loader *, double bytes_per_number);

/* The tensor prefix + layers + "N." + name + suffix; random numbers if dummy. */
int lls_loader_view(const struct lls_loader *, int layer, const char *name,
                    const char *suffix, size_t rows, size_t columns,
                    struct lls_tensor_view *out);
/* False if dummy. */
bool lls_loader_has(const struct lls_loader *, int layer, const char *name,
                    const char *suffix);
/* The view by the tensor's full name. */
int lls_loader_view_named(const struct lls_loader *, const char *name, size_t rows,
                          size_t columns, struct lls_tensor_view *out);

/* Packs views; biases may be NULL. Counts and tells the progress. */
int lls_loader_pack(struct lls_loader *, const struct lls_tensor_view *parts,
                    const struct lls_tensor_view *biases, size_t n,
                    struct lls_weight **out);

/* Finds and packs parts of up to LLS_MAX_PARTS stacked tensors, with their biases. Of
 * ranks that share columns, whose products are summed, the first has the bias. */
int lls_loader_matrix(struct lls_loader *, int layer, const struct lls_part *, size_t n,
                      struct lls_range columns, bool bias, struct lls_weight **out);
/* A tensor of bytes, and the seed of random numbers in the place of a tensor. */
int lls_loader_bytes(const struct lls_loader *, int layer, const char *name,
                     const char *suffix, size_t n, const void **out);
uint64_t lls_loader_seed(const struct lls_loader *, int layer, const char *name);
/* Columns are cut between blocks, rows anywhere: -ENOTSUP where ranks would do otherwise.
 */
int lls_loader_check_cut(struct lls_loader *, const char *name, enum lls_dtype,
                         const struct lls_range *columns);
/* Part of a vector whose name has no ".weight". */
int lls_loader_vector(struct lls_loader *, int layer, const char *name, struct lls_range,
                      float **out);
/* mixture_loader.c: the router and the experts of a layer. */
int lls_loader_mixture(struct lls_loader *, int layer, struct lls_layer_weights *);
int lls_loader_table(struct lls_loader *, const char *name, size_t rows, size_t columns,
                     void **out);
int lls_loader_norm(struct lls_loader *, int layer, const char *name,
                    struct lls_norm_weights *out);
/* A part of a norm's numbers; none where the model's norms have biases. */
int lls_loader_norm_part(struct lls_loader *, int layer, const char *name,
                         struct lls_range, struct lls_norm_weights *out);

#endif
