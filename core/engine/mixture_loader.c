/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a mixture of experts. Each expert is a matrix of its own, so that a step reads
 * only the experts that have rows. The router keeps the model's own data type even if
 * the experts are quantised, because it decides between close scores.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/device/tensor.h"
#include "core/engine/mixture_loader.h"

#define NAME_MAX_CHARS 128

static int load_router(struct lls_loader *l, int layer, struct lls_weight **out)
{
  const struct lls_model_config *c = l->config;
  const struct lls_weights_source *given = l->source;
  struct lls_weights_source own = *given;
  const struct lls_part part = {l->names->router, lls_range_all(c->mixture.experts)};
  if (own.format != LLS_WEIGHTS_F32 && own.format != LLS_WEIGHTS_BF16)
    own.format = LLS_WEIGHTS_AUTO;
  l->source = &own;
  int rc = lls_loader_matrix(l, layer, &part, 1, lls_range_all(c->hidden),
                             c->mixture.biases, out);
  l->source = given;
  return rc;
}

static void expert_name(const struct lls_loader *l, uint32_t expert, const char *part,
                        char name[NAME_MAX_CHARS])
{
  snprintf(name, NAME_MAX_CHARS, "%s%u.%s", l->names->experts, expert, part);
}

/* Columns of an expert's first matrix, and rows of its last one. */
static struct lls_range expert_inputs(const struct lls_loader *l)
{
  const struct lls_model_config *c = l->config;
  return lls_range_all(c->mixture.latent > 0 ? c->mixture.latent : c->hidden);
}

static int load_up(struct lls_loader *l, int layer, uint32_t expert,
                   struct lls_weight **out)
{
  char gate[NAME_MAX_CHARS], up[NAME_MAX_CHARS];
  struct lls_range ffn = l->shard->expert_ffn;
  const struct lls_part parts[] = {{up, ffn}, {gate, ffn}, {up, ffn}};
  bool gated = l->config->gated;
  if (gated)
    expert_name(l, expert, l->names->expert_gate, gate);
  expert_name(l, expert, l->names->expert_up, up);
  return lls_loader_matrix(l, layer, gated ? parts + 1 : parts, gated ? 2 : 1,
                           expert_inputs(l), l->config->mixture.biases, out);
}

static int load_down(struct lls_loader *l, int layer, uint32_t expert,
                     struct lls_weight **out)
{
  char name[NAME_MAX_CHARS];
  const struct lls_part part = {name, expert_inputs(l)};
  expert_name(l, expert, l->names->expert_down, name);
  return lls_loader_matrix(l, layer, &part, 1, l->shard->expert_ffn,
                           l->config->mixture.biases, out);
}

/* ---- blocks ----------------------------------------------------------------------- */

#define BLOCK       32 /* values in a block */
#define BLOCK_CODES 16 /* bytes of codes in the file; the scale is in another tensor */
#define BLOCK_BYTES 17 /* bytes of a block in quantised.h's layout, the scale first */

/* Packs a block. The file has values 2i and 2i + 1 in a byte, LLS_MXFP4 has i and i +
 * 16. */
static void repack_block(const uint8_t *codes, uint8_t scale, uint8_t *out)
{
  uint8_t code[BLOCK];
  for (size_t i = 0; i < BLOCK; i++)
    code[i] = i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
  *out++ = scale;
  for (size_t i = 0; i < BLOCK / 2; i++)
    out[i] = (uint8_t)(code[i] | code[i + BLOCK / 2] << 4);
}

/* Rows of one expert in a tensor that holds all experts' blocks; the name is without
 * "_blocks", "_scales", "_bias". */
struct block_rows {
  struct lls_stack_rows rows;
  uint32_t expert;
  size_t columns;
};

/* Repacks some rows of an expert. The caller frees out->data. */
static int repack(const struct lls_loader *l, int layer, const struct block_rows *b,
                  struct lls_tensor_view *out)
{
  const struct lls_stack_rows *r = &b->rows;
  size_t blocks = b->columns / BLOCK, all = l->config->mixture.experts * r->rows * blocks;
  char name[NAME_MAX_CHARS];
  const void *codes = NULL, *scales = NULL;
  *out = (struct lls_tensor_view){.dtype = LLS_MXFP4,
                                  .rows = r->taken.n,
                                  .columns = b->columns,
                                  .row_stride = b->columns};
  snprintf(name, sizeof name, "%s%s", l->names->experts, r->name);
  if (l->source->dummy) {
    out->dtype = LLS_BF16;
    out->seed = lls_loader_seed(l, layer, name) + b->expert;
    return 0;
  }
  int rc = lls_loader_bytes(l, layer, name, "_blocks", all * BLOCK_CODES, &codes);
  if (rc == 0)
    rc = lls_loader_bytes(l, layer, name, "_scales", all, &scales);
  if (rc < 0)
    return rc;
  uint8_t *packed = malloc(r->taken.n * blocks * BLOCK_BYTES);
  if (packed == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  out->data = packed;
  for (size_t i = 0; i < r->taken.n; i++) {
    size_t row = b->expert * r->rows + r->first + (r->taken.first + i) * r->step;
    for (size_t k = row * blocks; k < (row + 1) * blocks; k++, packed += BLOCK_BYTES)
      repack_block((const uint8_t *)codes + k * BLOCK_CODES, ((const uint8_t *)scales)[k],
                   packed);
  }
  return 0;
}

/* Packs some rows of an expert. If ranks cut it by columns, only the first rank adds
 * the bias. */
static int load_blocks(struct lls_loader *l, int layer, const struct block_rows *parts,
                       size_t n, struct lls_range columns, struct lls_weight **out)
{
  struct lls_tensor_view views[LLS_MAX_PARTS] = {0}, cut[LLS_MAX_PARTS],
                         biases[LLS_MAX_PARTS] = {0};
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < n; i++) {
    rc = repack(l, layer, &parts[i], &views[i]);
    if (rc == 0)
      rc = lls_loader_check_cut(l, parts[i].rows.name, views[i].dtype, &columns);
    if (rc == 0)
      cut[i] = lls_view_columns(&views[i], columns.first, columns.n);
    if (rc == 0)
      rc = lls_loader_stack_bias(l, layer, parts[i].expert, &parts[i].rows, &biases[i]);
  }
  if (rc == 0)
    rc = lls_loader_pack(l, cut, columns.first == 0 ? biases : NULL, n, out);
  for (size_t i = 0; i < n; i++) {
    free((void *)views[i].data);
    free((void *)biases[i].data);
  }
  return rc;
}

static int load_blocks_up(struct lls_loader *l, int layer, uint32_t expert,
                          struct lls_weight **out)
{
  struct lls_range ffn = l->shard->expert_ffn;
  struct block_rows gate = {
      {l->names->expert_blocks_up, 2 * ffn.whole, ffn, 0, 2}, expert, l->config->hidden};
  struct block_rows parts[] = {gate, gate};
  parts[1].rows.first = 1;
  return load_blocks(l, layer, parts, 2, lls_range_all(l->config->hidden), out);
}

static int load_blocks_down(struct lls_loader *l, int layer, uint32_t expert,
                            struct lls_weight **out)
{
  struct lls_range rows = lls_range_all(l->config->hidden), ffn = l->shard->expert_ffn;
  const struct block_rows part = {
      {l->names->expert_down, rows.n, rows, 0, 1}, expert, ffn.whole};
  return load_blocks(l, layer, &part, 1, ffn, out);
}

/* ---- the whole -------------------------------------------------------------------- */

/* Loads one matrix of every expert. */
static int load_experts(struct lls_loader *l, int layer,
                        int (*load)(struct lls_loader *, int, uint32_t,
                                    struct lls_weight **),
                        struct lls_experts **out)
{
  const struct lls_device_ops *ops = l->device->ops;
  uint32_t n = l->config->mixture.experts;
  struct lls_weight **weights = calloc(n, sizeof *weights);
  if (weights == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < n; i++)
    rc = load(l, layer, i, &weights[i]);
  if (rc == 0)
    rc = ops->experts_create(l->device, weights, n, out, l->err);
  else
    for (uint32_t i = 0; i < n && weights[i] != NULL; i++)
      ops->weight_destroy(l->device, weights[i]);
  free(weights);
  return rc;
}

/* True if one tensor holds the blocks of all experts, as in gpt-oss's folders but not
 * in its GGUF files. */
static bool in_blocks(const struct lls_loader *l, int layer)
{
  char gate[NAME_MAX_CHARS];
  if (l->names->expert_blocks_up == NULL)
    return false;
  expert_name(l, 0, l->names->expert_gate, gate);
  return !lls_loader_has(l, layer, gate, ".weight");
}

/* Loads the MLP that all rows go through; its score is as exact as the router. */
static int load_shared(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_model_config *c = l->config;
  const struct lls_tensor_names *n = l->names;
  struct lls_range ffn = l->shard->shared_ffn, hidden = lls_range_all(c->hidden);
  struct lls_part gate_up[] = {{n->shared_gate, ffn}, {n->shared_up, ffn}};
  for (size_t i = 0; c->gated && n->shared_gate == NULL && i < 2; i++)
    gate_up[i] = (struct lls_part){n->shared_up,
                                   lls_range_after(ffn, i * ffn.whole, 2 * ffn.whole)};
  const struct lls_part down = {n->shared_down, hidden},
                        score = {n->shared_score, lls_range_all(1)};
  int rc = lls_loader_matrix(l, layer, c->gated ? gate_up : gate_up + 1, c->gated ? 2 : 1,
                             hidden, c->mlp_bias, &w->shared_up);
  if (rc == 0)
    rc = lls_loader_matrix(l, layer, &down, 1, ffn, c->mlp_bias, &w->shared_down);
  if (rc == 0 && c->mixture.shared_gate)
    rc = lls_loader_matrix(l, layer, &score, 1, hidden, false, &w->shared_score);
  return rc;
}

/* Loads the products before and behind experts that work on fewer numbers. */
static int load_latent(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  struct lls_range latent = expert_inputs(l), hidden = lls_range_all(l->config->hidden);
  const struct lls_part in = {l->names->mixture_in, latent},
                        out = {l->names->mixture_out, hidden};
  int rc = lls_loader_matrix(l, layer, &in, 1, hidden, false, &w->mixture_in);
  return rc < 0 ? rc
                : lls_loader_matrix(l, layer, &out, 1, latent, false, &w->mixture_out);
}

/* Loads what a mixture beside an MLP has of its own. The router's norm is of the unscaled
 * kind, whose output is divided by sqrt(hidden). */
static int load_beside(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_model_config *c = l->config;
  const struct lls_tensor_names *n = l->names;
  int rc = lls_loader_scaled(l, layer, n->router_norm, "", c->hidden,
                             1 / sqrtf((float)c->hidden), &w->router_norm);
  if (rc == 0)
    rc = lls_loader_vector(l, layer, n->expert_scale, lls_range_all(c->mixture.experts),
                           &w->expert_factor);
  if (rc == 0)
    rc = lls_loader_norm(l, layer, n->mixture_norm, &w->mixture_norm);
  if (rc == 0)
    rc = lls_loader_norm(l, layer, n->mixture_output_norm, &w->mixture_output_norm);
  return rc < 0
             ? rc
             : lls_loader_norm(l, layer, n->beside_output_norm, &w->beside_output_norm);
}

int lls_loader_mixture(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  bool stack = lls_loader_has_stack(l, layer), blocks = !stack && in_blocks(l, layer);
  int rc = load_router(l, layer, &w->router);
  if (rc == 0 && l->config->mixture.corrected)
    rc = lls_loader_vector(l, layer, l->names->router_bias,
                           lls_range_all(l->config->mixture.experts), &w->router_bias);
  if (rc == 0 && l->config->mixture.shared > 0)
    rc = load_shared(l, layer, w);
  if (rc == 0 && l->config->mixture.latent > 0)
    rc = load_latent(l, layer, w);
  if (rc == 0 && l->config->mixture.beside)
    rc = load_beside(l, layer, w);
  if (rc == 0)
    rc = load_experts(l, layer,
                      stack    ? lls_loader_stack_up
                      : blocks ? load_blocks_up
                               : load_up,
                      &w->expert_up);
  if (rc == 0)
    rc = load_experts(l, layer,
                      stack    ? lls_loader_stack_down
                      : blocks ? load_blocks_down
                               : load_down,
                      &w->expert_down);
  return rc;
}
