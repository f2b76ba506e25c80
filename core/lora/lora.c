/* SPDX-License-Identifier: Apache-2.0 */
/* Makes adapters of matrices, and shares them; see lora.h and lora_build.h. */
#include "core/lora/lora.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/tensor.h"
#include "core/lora/lora_build.h"
#include "core/model/architecture.h"

/* ---- modules ---------------------------------------------------------------------- */

int lls_lora_kind_of(const struct lls_model_config *c, const char *name, uint32_t layer)
{
  const struct lls_tensor_names *n = &c->architecture->tensors;
  /* else layers differ in their sizes, or q, k and v are made of latent vectors */
  bool alike = !lls_heads_differ(c), plain = alike && c->latent.rank == 0;
  bool dense = alike && !c->layer[layer].mixture, gated = c->gated;
  bool shares = alike && c->layer[layer].mixture && c->mixture.shared > 0;
  const struct {
    const char *name;
    int kind;
  } modules[] = {
      {plain && !c->output_gate ? n->q : NULL, LLS_LORA_Q}, /* else rows are gates, too */
      {plain ? n->k : NULL, LLS_LORA_K},
      {plain ? n->v : NULL, LLS_LORA_V},
      {plain ? n->stacked_qkv : NULL, LLS_LORA_STACKED_QKV},
      {plain ? n->fused_qkv : NULL, LLS_LORA_FUSED_QKV},
      {plain ? n->output : NULL, LLS_LORA_OUTPUT},
      {dense && gated ? n->stacked_up : NULL, LLS_LORA_STACKED_UP},
      {dense && gated ? n->gate : NULL, LLS_LORA_GATE},
      {dense ? n->up : NULL, LLS_LORA_UP},
      {dense ? n->down : NULL, LLS_LORA_DOWN},
      {shares && gated && n->shared_gate == NULL ? n->shared_up : NULL,
       LLS_LORA_STACKED_SHARED},
      {shares && gated ? n->shared_gate : NULL, LLS_LORA_SHARED_GATE},
      {shares ? n->shared_up : NULL, LLS_LORA_SHARED_UP},
      {shares ? n->shared_down : NULL, LLS_LORA_SHARED_DOWN},
  };
  for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
    if (modules[i].name != NULL && strcmp(modules[i].name, name) == 0)
      return modules[i].kind;
  return -1;
}

/* The rows of B that are a target's, in the graph's order. */
struct rows {
  const struct lls_model_config *config;
  uint32_t kind;
  enum lls_lora_target target;
  bool in_pairs;
};

/* Returns the target's first row in a matrix where targets are stacked. */
static size_t first_row(const struct rows *r)
{
  const struct lls_model_config *c = r->config;
  size_t first = 0;
  if (r->kind == LLS_LORA_STACKED_QKV)
    for (int t = LLS_LORA_Q; t < (int)r->target; t++)
      first += lls_lora_outputs(c, (enum lls_lora_target)t);
  bool is_up = r->target == LLS_LORA_UP || r->target == LLS_LORA_SHARED_UP;
  return r->kind != r->target && is_up ? lls_lora_outputs(c, r->target) : first;
}

/* Returns the row of B for output i of the target. */
static size_t row_of(const struct rows *r, size_t i)
{
  const struct lls_model_config *c = r->config;
  size_t d = c->head_dim, head = i / d, in_head = i % d;
  bool turns = r->target == LLS_LORA_Q || r->target == LLS_LORA_K;
  if (turns && c->paired_rope)
    in_head = lls_unpaired_row(in_head, c->rope.dims);
  if (turns && r->in_pairs)
    in_head = lls_unpaired_row(in_head, d);
  if (r->target > LLS_LORA_V)
    return first_row(r) + i;
  if (r->kind != LLS_LORA_FUSED_QKV)
    return first_row(r) + head * d + in_head;
  size_t share = c->heads / c->kv_heads, group = share + 2;
  size_t place = r->target == LLS_LORA_Q ? head / share * group + head % share
                                         : head * group + share + r->target - LLS_LORA_K;
  return place * d + in_head;
}

static size_t whole_outputs(const struct lls_model_config *c, uint32_t kind)
{
  if (kind == LLS_LORA_STACKED_QKV || kind == LLS_LORA_FUSED_QKV)
    return lls_qkv_columns(c, 0);
  if (kind == LLS_LORA_STACKED_UP)
    return 2 * (size_t)c->ffn;
  if (kind == LLS_LORA_STACKED_SHARED)
    return 2 * (size_t)c->mixture.shared;
  return lls_lora_outputs(c, (enum lls_lora_target)kind);
}

static int check_module(const struct lls_model_config *c, const struct lls_lora_module *m,
                        struct lls_error *err)
{
  size_t rank = m->a.rows, outputs = whole_outputs(c, m->kind);
  uint32_t inputs = m->kind < LLS_LORA_TARGETS
                        ? lls_lora_inputs(c, (enum lls_lora_target)m->kind)
                        : c->hidden;
  if (rank == 0 || rank > LLS_LORA_MAX_RANK)
    return lls_fail(err, -ENOTSUP, "%s: %s has rank %zu; ranks of 1 to %d are supported",
                    m->file, m->name, rank, LLS_LORA_MAX_RANK);
  if (m->a.columns != inputs || m->b.columns != rank || m->b.rows != outputs)
    return lls_fail(err, -EINVAL,
                    "%s: %s has lora_A (%zu, %zu) and lora_B (%zu, %zu), where the model "
                    "needs (r, %u) and (%zu, r): is the adapter of another model?",
                    m->file, m->name, rank, m->a.columns, m->b.rows, m->b.columns, inputs,
                    outputs);
  return 0;
}

static int add_part(struct lls_lora *l, const struct rows *rows,
                    const struct lls_lora_module *m, struct lls_error *err)
{
  size_t rank = m->a.rows, inputs = m->a.columns;
  size_t outputs = lls_lora_outputs(rows->config, rows->target);
  struct lls_lora_part *part =
      &l->parts[(size_t)m->layer * LLS_LORA_TARGETS + rows->target];
  float row[LLS_LORA_MAX_RANK];
  if (part->rank > 0)
    return lls_fail(err, -EINVAL, "%s: two pairs of matrices for %s", m->file, m->name);
  part->a = malloc(rank * (inputs + outputs) * sizeof *part->a);
  if (part->a == NULL)
    return lls_fail(err, -ENOMEM, "%s: out of memory", m->file);
  part->rank = (uint32_t)rank;
  part->b = part->a + rank * inputs;
  for (size_t i = 0; i < rank; i++)
    lls_tensor_read_row(&m->a, i, part->a + i * inputs);
  for (size_t i = 0; i < outputs; i++) {
    lls_tensor_read_row(&m->b, row_of(rows, i), row);
    for (size_t k = 0; k < rank; k++)
      part->b[k * outputs + i] = (float)(m->scale * (double)row[k]);
  }
  l->bytes += rank * (inputs + outputs) * sizeof *part->a;
  return 0;
}

int lls_lora_add(struct lls_lora *l, const struct lls_model_config *c,
                 const struct lls_lora_module *m, struct lls_error *err)
{
  int first = (int)m->kind, last = first;
  if (lls_lora_is_of_experts(m->kind))
    return lls_lora_add_experts(l, c, m, err);
  if (m->kind == LLS_LORA_STACKED_QKV || m->kind == LLS_LORA_FUSED_QKV) {
    first = LLS_LORA_Q;
    last = LLS_LORA_V;
  } else if (m->kind == LLS_LORA_STACKED_UP) {
    first = LLS_LORA_GATE;
    last = LLS_LORA_UP;
  } else if (m->kind == LLS_LORA_STACKED_SHARED) {
    first = LLS_LORA_SHARED_GATE;
    last = LLS_LORA_SHARED_UP;
  }
  int rc = check_module(c, m, err);
  for (int target = first; target <= last && rc == 0; target++) {
    const struct rows rows = {.config = c,
                              .kind = m->kind,
                              .target = (enum lls_lora_target)target,
                              .in_pairs = m->in_pairs};
    rc = add_part(l, &rows, m, err);
  }
  return rc;
}

/* ---- life ------------------------------------------------------------------------- */

struct lls_lora *lls_lora_create(const struct lls_model_config *c)
{
  size_t n = (size_t)c->layers * LLS_LORA_TARGETS;
  struct lls_lora *l = calloc(1, sizeof *l + n * sizeof *l->parts);
  if (l == NULL)
    return NULL;
  atomic_init(&l->users, 1);
  l->layers = c->layers;
  return l;
}

struct lls_lora *lls_lora_with_ranks(const struct lls_model_config *c,
                                     const uint32_t *ranks)
{
  struct lls_lora *l = lls_lora_create(c);
  for (uint32_t i = 0; l != NULL && i < c->layers * LLS_LORA_TARGETS; i++) {
    enum lls_lora_target target = (enum lls_lora_target)(i % LLS_LORA_TARGETS);
    size_t n = lls_lora_part_numbers(c, target, ranks[i]);
    struct lls_lora_part *part = &l->parts[i];
    if (n == 0)
      continue;
    part->a = malloc(n * sizeof *part->a);
    if (part->a == NULL) {
      lls_lora_unref(l);
      return NULL;
    }
    part->rank = ranks[i];
    part->b = part->a +
              (size_t)ranks[i] * lls_lora_inputs(c, target) * lls_lora_copies(c, target);
    l->bytes += n * sizeof *part->a;
  }
  return l;
}

struct lls_lora *lls_lora_ref(struct lls_lora *l)
{
  if (l != NULL)
    atomic_fetch_add(&l->users, 1);
  return l;
}

void lls_lora_unref(struct lls_lora *l)
{
  if (l == NULL || atomic_fetch_sub(&l->users, 1) > 1)
    return;
  for (uint32_t i = 0; i < l->layers * LLS_LORA_TARGETS; i++)
    free(l->parts[i].a);
  free(l->path);
  free(l);
}
