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
  const struct lls_model_config *config; /* the whole model's configuration */
  const struct lls_shard *shard;         /* the part to load */
  const struct lls_tensor_names *names;
  const char *prefix;
  struct lls_device *device;
  size_t total, done; /* values of all matrices */
  size_t available;   /* bytes of memory before loading */
  struct lls_error *err;
};

/* One tensor of a stacked matrix. */
struct lls_part {
  const char *name; /* without layer and suffix */
  struct lls_range rows;
};

#define LLS_MAX_PARTS 4
#define LLS_NO_LAYER  (-1)

/* Returns -ENOMEM if the matrices at bytes_per_number bytes a value do not fit next to
 * source->other_bytes. */
int lls_loader_check_memory(const struct lls_loader *, double bytes_per_number);

/* Views the tensor prefix + layers + "N." + name + suffix; random values if dummy. */
int lls_loader_view(const struct lls_loader *, int layer, const char *name,
                    const char *suffix, size_t rows, size_t columns,
                    struct lls_tensor_view *out);
/* True if the folder has this tensor; false if dummy. */
bool lls_loader_has(const struct lls_loader *, int layer, const char *name,
                    const char *suffix);
/* Views a tensor by its full name. */
int lls_loader_view_named(const struct lls_loader *, const char *name, size_t rows,
                          size_t columns, struct lls_tensor_view *out);

/* Packs views; biases may be NULL. Counts the values and reports the progress. */
int lls_loader_pack(struct lls_loader *, const struct lls_tensor_view *parts,
                    const struct lls_tensor_view *biases, size_t n,
                    struct lls_weight **out);
/* The same for the matrix of one head of latent attention, which only a host device has
 * as codes: elsewhere its numbers are plain, 0.3 percent of DeepSeek-V3's. */
int lls_loader_pack_head(struct lls_loader *, const struct lls_tensor_view *rows,
                         struct lls_weight **out);

/* Finds and packs parts of up to LLS_MAX_PARTS stacked tensors, with their biases. If
 * ranks share the columns, so that their products are summed, only the first rank has
 * the bias. */
int lls_loader_matrix(struct lls_loader *, int layer, const struct lls_part *, size_t n,
                      struct lls_range columns, bool bias, struct lls_weight **out);
/* Views a tensor of bytes; returns the seed that a dummy tensor of this name has. */
int lls_loader_bytes(const struct lls_loader *, int layer, const char *name,
                     const char *suffix, size_t n, const void **out);
uint64_t lls_loader_seed(const struct lls_loader *, int layer, const char *name);
/* Returns -ENOTSUP if ranks would cut columns within a quantisation block. Rows may be
 * cut anywhere. */
int lls_loader_check_cut(struct lls_loader *, const char *name, enum lls_dtype,
                         const struct lls_range *columns);
/* Loads a part of a vector whose name has no ".weight". */
int lls_loader_vector(struct lls_loader *, int layer, const char *name, struct lls_range,
                      float **out);
/* qkv_loader.c: query, key and value of a layer, stacked. */
int lls_loader_qkv(struct lls_loader *, int layer, struct lls_weight **out);
/* The product behind attention whose heads have value_dim numbers. */
int lls_loader_filled_output(struct lls_loader *, int layer, struct lls_weight **out);
/* latent_loader.c: the same for a layer with multi-head latent attention. */
int lls_loader_latent(struct lls_loader *, int layer, struct lls_layer_weights *);
/* index_loader.c: the index of such a layer. */
int lls_loader_index(struct lls_loader *, int layer, struct lls_latent_weights *);
/* The same where each head has a gate behind its query. */
int lls_loader_gated_qkv(struct lls_loader *, int layer, struct lls_weight **qkv,
                         struct lls_weight **gates);
/* recurrent_loader.c: all of a layer that keeps a state, but norms and mlp. */
int lls_loader_recurrent(struct lls_loader *, int layer, struct lls_layer_weights *);
/* extras_loader.c: the slopes of this rank's heads; xIELU's parameters of a layer. */
int lls_loader_slopes(struct lls_loader *);
int lls_loader_xielu(struct lls_loader *, int layer, struct lls_xielu *out);
/* encoder_loader.c: what an encoder has outside its layers. */
int lls_loader_encoder_ends(struct lls_loader *);
/* joined_loader.c: what a layer that guesses has outside of it. */
int lls_loader_joined_ends(struct lls_loader *);
/* extras_loader.c: what a layer has of its own inputs, and its scalar. */
int lls_loader_layer_inputs(struct lls_loader *, int layer, struct lls_layer_weights *);
/* stream_loader.c: what a layer has of streams and LAUREL; and the model. */
int lls_loader_streams(struct lls_loader *, int layer, struct lls_layer_weights *);
int lls_loader_stream_ends(struct lls_loader *);
/* mixture_loader.c: the router and the experts of a layer. */
int lls_loader_mixture(struct lls_loader *, int layer, struct lls_layer_weights *);
int lls_loader_table(struct lls_loader *, const char *name, size_t rows,
                     struct lls_range columns, void **out);
int lls_loader_norm(struct lls_loader *, int layer, const char *name,
                    struct lls_norm_weights *out);
/* Makes a vector of n equal numbers; loads a norm's weights times a factor. */
int lls_loader_constant(struct lls_loader *, size_t n, float number, float **out);
int lls_loader_scaled(struct lls_loader *, int layer, const char *name,
                      const char *suffix, size_t columns, float factor, float **out);
/* Loads the norm before the head, with the logits' scale. */
int lls_loader_final_norm(struct lls_loader *, struct lls_norm_weights *out);
/* Loads a part of a norm without a bias; fails if the model's norms have biases. */
int lls_loader_norm_part(struct lls_loader *, int layer, const char *name,
                         struct lls_range, struct lls_norm_weights *out);

#endif
