/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of the CPU device: one function for each member of struct
 * lls_device_ops, with its signature (declared here through the vtable's own types, so
 * that a difference is a compile error), and their needs of working memory.
 */
#ifndef LLS_CPU_OPS_H
#define LLS_CPU_OPS_H

#include "core/device/device.h"

/* step.c */
int lls_cpu_step_begin(struct lls_device *, struct lls_pool *,
                       const struct lls_device_step *);
int lls_cpu_step_end(struct lls_device *, struct lls_error *);

/* linear.c */
struct lls_cpu_linear_kernels;
/* bytes of each thread */
size_t lls_cpu_linear_scratch(const struct lls_cpu_linear_kernels *);
size_t lls_cpu_linear_shared(const struct lls_cpu_linear_kernels *,
                             size_t max_columns); /* bytes shared by all threads */
void lls_cpu_linear(struct lls_device *, const struct lls_weight *, const void *x,
                    uint32_t n_rows, enum lls_linear_store, void *y);
void lls_cpu_logits(struct lls_device *, const struct lls_weight *, const void *x,
                    uint32_t n_rows, float *y);

/* A matrix for each head, which multiplies the head's columns of the rows. */
struct lls_cpu_heads {
  struct lls_weight *const *weights; /* (heads) */
  uint32_t heads;
  const float *x;
  size_t x_head, x_stride; /* floats from head to head, and from row to row */
  float *y;
  size_t y_head, y_stride;
};

/* Sets y. Threads take whole heads, each in its own scratch. The
 * matrices have at most LLS_HEAD_DIM_MAX inputs. */
struct lls_cpu_device;
void lls_cpu_linear_heads(struct lls_cpu_device *, const struct lls_cpu_heads *,
                          size_t n_rows);

/* y (n_rows, n_outputs): the outputs from `first` on, a multiple of LLS_PANEL. */
void lls_cpu_linear_part(struct lls_device *, const struct lls_weight *, size_t first,
                         size_t n_outputs, const float *x, uint32_t n_rows, float *y);

/* extras.c */
void lls_cpu_xielu(struct lls_device *, const struct lls_xielu *, void *x,
                   uint32_t n_rows, uint32_t columns);
void lls_cpu_grow_queries(struct lls_device *, const struct lls_attention_shape *,
                          const struct lls_query_growth *, void *qkv);
void lls_cpu_embed_layer(struct lls_device *, const void *table, float scale, void *x);
void lls_cpu_predict(struct lls_device *, const struct lls_streams *, const float *scores,
                     const float *mix, uint32_t n_rows, uint32_t columns, void *x);
void lls_cpu_correct(struct lls_device *, const struct lls_streams *, const float *scores,
                     const float *mix, const float *scale, const void *x, uint32_t n_rows,
                     uint32_t columns, void *y);
void lls_cpu_match_size(struct lls_device *, const void *like, uint32_t n_rows,
                        uint32_t columns, void *x);
void lls_cpu_cut_gates(struct lls_device *, float factor, uint32_t whole, uint32_t n_rows,
                       uint32_t columns, void *x);
void lls_cpu_gate_inputs(struct lls_device *, enum lls_activation, const void *y,
                         uint32_t n_rows, uint32_t columns, void *x);
void lls_cpu_scale(struct lls_device *, float factor, uint32_t n_rows, uint32_t columns,
                   void *x);
void lls_cpu_gate_rows(struct lls_device *, const float *scores, void *x, uint32_t n_rows,
                       uint32_t columns);

/* choose.c */
void lls_cpu_choose(struct lls_device *, const struct lls_attention_shape *,
                    const struct lls_index_shape *, uint32_t layer, const void *q,
                    const void *weights, uint32_t *tokens);

/* adapt.c */
void lls_cpu_adapt(struct lls_device *, const struct lls_adapted_rows *,
                   uint32_t n_groups, const void *x, uint32_t inputs, float *scratch,
                   void *y, uint32_t outputs);

/* states.c */
void lls_cpu_conv(struct lls_device *, const struct lls_conv_shape *, void *x, void *y);
void lls_cpu_delta(struct lls_device *, const struct lls_delta_shape *, const void *rows,
                   const void *gates, void *out);
void lls_cpu_space(struct lls_device *, const struct lls_space_shape *, const void *rows,
                   const void *steps, void *out);
void lls_cpu_norm_gated(struct lls_device *, const struct lls_gated_norm_shape *,
                        const void *rows, uint32_t n_rows, void *y);
void lls_cpu_gate_columns(struct lls_device *, const void *gates, void *x,
                          uint32_t n_rows, uint32_t columns);

/* restore.c */
void lls_cpu_hidden_write(struct lls_device *, const struct lls_attention_shape *,
                          uint32_t layer, const void *h);
void lls_cpu_restore(struct lls_device *, const struct lls_attention_shape *,
                     const struct lls_rope_shape *, uint32_t layer,
                     const struct lls_weight *qkv);

/* absorb.c */
bool lls_cpu_absorbs(const struct lls_device *, const struct lls_weight *qkv,
                     uint32_t head_dim);
void lls_cpu_attend_hidden(struct lls_device *, const struct lls_attention_shape *,
                           uint32_t layer, const struct lls_weight *qkv, const void *rows,
                           void *out);

/* ranks.c: used with options.ranks */
void lls_cpu_all_reduce(struct lls_device *, void *x, uint32_t n_rows, uint32_t columns);
void lls_cpu_gather_columns(struct lls_device *, const float *part, uint32_t n_rows,
                            uint32_t columns, float *y);

/* weight.c */
int lls_cpu_weight_create(struct lls_device *, const struct lls_tensor_view *parts,
                          const struct lls_tensor_view *biases, size_t n_parts,
                          enum lls_weight_format, struct lls_weight **out,
                          struct lls_error *err);
void lls_cpu_weight_destroy(struct lls_device *, struct lls_weight *);
size_t lls_cpu_weight_bytes(const struct lls_weight *);

/* table.c */
int lls_cpu_vector_create(struct lls_device *, const struct lls_tensor_view *,
                          float **out, struct lls_error *err);
int lls_cpu_table_create(struct lls_device *, const struct lls_tensor_view *, void **out,
                         struct lls_error *err);
void lls_cpu_table_destroy(struct lls_device *, void *table);

/* pool.c */
int lls_cpu_pool_create(struct lls_device *, const struct lls_pool_shape *,
                        struct lls_pool **out, struct lls_error *err);
void lls_cpu_pool_destroy(struct lls_device *, struct lls_pool *);
int lls_cpu_pool_copy(struct lls_device *, struct lls_pool *, const struct lls_copy *,
                      size_t n);
int lls_cpu_pool_pack(struct lls_device *, const struct lls_pool *,
                      const struct lls_pull *, size_t n, void *to);
int lls_cpu_pool_unpack(struct lls_device *, struct lls_pool *, const struct lls_pull *,
                        size_t n, const void *from);
int lls_cpu_pool_read(struct lls_device *, const struct lls_pool *, uint32_t group,
                      uint32_t block, void *to);
int lls_cpu_pool_write(struct lls_device *, struct lls_pool *, uint32_t group,
                       uint32_t block, const void *from);
int lls_cpu_pool_pull(struct lls_device *, struct lls_pool *, struct lls_device *from,
                      const struct lls_pool *from_pool, const struct lls_pull *,
                      size_t n);
void lls_cpu_cache_write(struct lls_device *, const struct lls_attention_shape *,
                         uint32_t layer, const void *qkv);

/* attention.c */
size_t lls_cpu_attention_scratch(void); /* bytes of each thread */
size_t lls_cpu_attention_shared(size_t max_rows, size_t threads);
void lls_cpu_attention(struct lls_device *, const struct lls_attention_shape *,
                       uint32_t layer, const void *qkv, void *out);

/* attention_both_ways.c */
void lls_cpu_attention_both_ways(struct lls_device *, const struct lls_attention_shape *,
                                 const void *qkv, void *out);

/* norm.c, norm_qk.c, rope.c, activation.c */
void lls_cpu_norm(struct lls_device *, enum lls_norm_kind, const void *x,
                  const float *weight, const float *bias, float epsilon, uint32_t n_rows,
                  uint32_t columns, void *y);
void lls_cpu_norm_qk(struct lls_device *, const struct lls_attention_shape *,
                     const struct lls_qk_norm_shape *, void *qkv);
size_t lls_cpu_rope_bytes(size_t max_rows); /* bytes of the device's angles */
/* (2, rotary_dims / 2) cosines, then sines, of a position. */
void lls_cpu_angles(const struct lls_rope_shape *, double position, float *cosine);
void lls_cpu_rope(struct lls_device *, const struct lls_attention_shape *,
                  const struct lls_rope_shape *, void *qkv);
void lls_cpu_activate(struct lls_device *, enum lls_activation, void *x, uint32_t n_rows,
                      uint32_t columns);
void lls_cpu_gated(struct lls_device *, enum lls_activation, const void *x,
                   uint32_t n_rows, uint32_t columns, void *y);

/* embed.c */
void lls_cpu_embed(struct lls_device *, const void *table, float scale, void *x);
void lls_cpu_embed_positions(struct lls_device *, const void *table, int32_t offset,
                             void *x);
void lls_cpu_add(struct lls_device *, const void *x, uint32_t n_rows, uint32_t columns,
                 void *y);
void lls_cpu_gather(struct lls_device *, const void *x, const uint32_t *rows,
                    uint32_t n_rows, uint32_t columns, void *y);

/* activation.c */
void lls_cpu_cap_logits(struct lls_device *, float *logits, uint32_t n_rows,
                        uint32_t vocab, float cap);

/* latent.c */
void lls_cpu_latent_rows(struct lls_device *, const struct lls_latent_shape *,
                         const struct lls_experts *keys, const void *q, const void *kv,
                         void *rows);
void lls_cpu_latent_values(struct lls_device *, const struct lls_latent_shape *,
                           const struct lls_experts *values, const void *x, void *y);

/* experts.c */
struct lls_weight *const *lls_cpu_expert_weights(const struct lls_experts *);
int lls_cpu_experts_create(struct lls_device *, struct lls_weight *const *weights,
                           uint32_t n, struct lls_experts **out, struct lls_error *err);
void lls_cpu_experts_destroy(struct lls_device *, struct lls_experts *);
void lls_cpu_route(struct lls_device *, const float *scores, uint32_t n_rows,
                   bool normalise, const struct lls_route *);
void lls_cpu_gather_routed(struct lls_device *, const struct lls_route *, const void *x,
                           uint32_t n_rows, uint32_t columns, void *y);
void lls_cpu_linear_experts(struct lls_device *, const struct lls_experts *,
                            const struct lls_route *, const void *x, uint32_t n_rows,
                            void *y);
void lls_cpu_gated_experts(struct lls_device *, const struct lls_route *,
                           enum lls_activation, const void *x, uint32_t n_rows,
                           uint32_t columns, void *y);
void lls_cpu_combine(struct lls_device *, const struct lls_route *, const void *x,
                     uint32_t n_rows, uint32_t columns, enum lls_linear_store, void *y);

/* sample.c */
size_t lls_cpu_sample_scratch(size_t vocab); /* bytes of each thread */
void lls_cpu_sample(struct lls_device *, float *logits, uint32_t n_rows, uint32_t vocab,
                    const struct lls_sampling *const *params, struct lls_sampled *out);

#endif
