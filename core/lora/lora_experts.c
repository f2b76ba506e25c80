/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of the experts of a mixture. A file has a pair of matrices for each expert,
 * or one for all of them, of which every expert has a slice. In memory a target's changes
 * are one after the other with the largest of their ranks, so that an expert's number
 * finds them; experts without a change have zeros.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/tensor.h"
#include "core/lora/lora_build.h"
#include "core/model/architecture.h"

/* ---- names ------------------------------------------------------------------------ */

/* Returns the target of a matrix of one expert, as its family or most others call it. */
static int target_of(const struct lls_model_config *c, const char *part)
{
  const struct lls_tensor_names *n = &c->architecture->tensors;
  const struct {
    const char *name;
    int target;
  } parts[] = {
      {n->expert_gate, LLS_LORA_EXPERT_GATE}, {n->expert_up, LLS_LORA_EXPERT_UP},
      {n->expert_down, LLS_LORA_EXPERT_DOWN}, {"gate_proj", LLS_LORA_EXPERT_GATE},
      {"up_proj", LLS_LORA_EXPERT_UP},        {"down_proj", LLS_LORA_EXPERT_DOWN},
  };
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    if (parts[i].name != NULL && strcmp(parts[i].name, part) == 0)
      return c->gated || parts[i].target != LLS_LORA_EXPERT_GATE ? parts[i].target : -1;
  return -1;
}

/* Finds the module of all experts in a name; returns the text after it, or NULL. */
static const char *behind_experts(const char *name)
{
  static const char experts[] = "experts";
  const char *at = strstr(name, experts);
  while (at != NULL && at != name && at[-1] != '.')
    at = strstr(at + 1, experts);
  return at != NULL ? at + sizeof experts - 1 : NULL;
}

int lls_lora_expert_kind(const struct lls_model_config *c, const char *name,
                         uint32_t layer, uint32_t *expert)
{
  static const char inner[] = ".base_layer";
  const char *rest = behind_experts(name);
  int skip = 0;
  if (rest == NULL || !c->layer[layer].mixture)
    return -1;
  while (strncmp(rest, inner, sizeof inner - 1) == 0)
    rest += sizeof inner - 1;
  *expert = LLS_LORA_EVERY;
  if (rest[0] == '\0')
    return LLS_LORA_STACKED_EXPERTS;
  if (sscanf(rest, ".%9u.%n", expert, &skip) != 1 || skip == 0 ||
      *expert >= c->mixture.experts)
    return -1;
  return target_of(c, rest + skip);
}

int lls_lora_parameter_kind(const struct lls_model_config *c,
                            const struct lls_lora_module *m)
{
  size_t ffn = c->mixture.ffn, rows = c->gated ? 2 * ffn : ffn;
  size_t width = lls_lora_inputs(c, LLS_LORA_EXPERT_UP);
  bool up = m->a.columns == width && m->b.rows == rows;
  bool down = m->a.columns == ffn && m->b.rows == width;
  if (up && down)
    return -1;
  if (down)
    return LLS_LORA_EXPERT_DOWN;
  return c->gated ? LLS_LORA_STACKED_EXPERTS : LLS_LORA_EXPERT_UP;
}

/* ---- slices ----------------------------------------------------------------------- */

/* A pair that is being read. */
struct slices {
  const struct lls_model_config *config;
  const struct lls_lora_module *module;
  uint32_t n;     /* experts of which it has a slice each */
  uint32_t first; /* the first one's number */
  size_t rank, inputs, rows;
  float *row; /* room for one of B */
};

static bool is_stacked(const struct lls_lora_module *m)
{
  return m->kind == LLS_LORA_STACKED_EXPERTS;
}

static int check_sizes(const struct slices *s, struct lls_error *err)
{
  const struct lls_lora_module *m = s->module;
  if (m->a.rows % s->n != 0 || s->rank == 0 || s->rank > LLS_LORA_MAX_RANK)
    return lls_fail(err, -ENOTSUP,
                    "%s: %s has lora_A of %zu rows for %u experts; ranks of 1 to %d of "
                    "each are supported",
                    m->file, m->name, m->a.rows, s->n, LLS_LORA_MAX_RANK);
  size_t rows = m->across ? s->rows : s->n * s->rows;
  size_t columns = m->across ? s->n * s->rank : s->rank;
  if (m->a.columns != s->inputs || m->b.rows != rows || m->b.columns != columns)
    return lls_fail(err, -EINVAL,
                    "%s: %s has lora_A (%zu, %zu) and lora_B (%zu, %zu), where the model "
                    "needs (%zu, %zu) and (%zu, %zu): is the adapter of another model?",
                    m->file, m->name, m->a.rows, m->a.columns, m->b.rows, m->b.columns,
                    m->a.rows, s->inputs, rows, columns);
  return 0;
}

/* Gives a target's experts room for a rank, and keeps the changes that it has. */
static int widen(struct lls_lora *l, struct lls_lora_part *part, uint32_t experts,
                 size_t inputs, size_t outputs, uint32_t rank)
{
  size_t old = part->rank, each = inputs + outputs;
  if (rank <= old)
    return 0;
  float *a = calloc(experts * rank * each, sizeof *a), *b = a + experts * rank * inputs;
  if (a == NULL)
    return -ENOMEM;
  for (size_t e = 0; old > 0 && e < experts; e++) {
    memcpy(a + e * rank * inputs, part->a + e * old * inputs, old * inputs * sizeof *a);
    memcpy(b + e * rank * outputs, part->b + e * old * outputs,
           old * outputs * sizeof *b);
  }
  free(part->a);
  l->bytes += experts * (rank - old) * each * sizeof *a;
  *part = (struct lls_lora_part){.rank = rank, .a = a, .b = b};
  return 0;
}

/* Returns the row of an expert's B for output i of the target. */
static size_t row_of(const struct slices *s, enum lls_lora_target target, size_t i)
{
  const struct lls_model_config *c = s->config;
  bool is_up = target == LLS_LORA_EXPERT_UP;
  if (!is_stacked(s->module))
    return i;
  if (c->architecture->tensors.experts_alternate)
    return 2 * i + is_up;
  return i + (is_up ? c->mixture.ffn : 0);
}

/* Copies the slices of B for output i of the target. */
static void read_output(const struct slices *s, enum lls_lora_target target,
                        const struct lls_lora_part *part, size_t outputs, size_t i)
{
  const struct lls_lora_module *m = s->module;
  size_t row = row_of(s, target, i), step = m->across ? s->n : 1;
  if (m->across)
    lls_tensor_read_row(&m->b, row, s->row);
  for (size_t e = 0; e < s->n; e++) {
    float *b = part->b + (s->first + e) * part->rank * outputs + i;
    if (!m->across)
      lls_tensor_read_row(&m->b, e * s->rows + row, s->row);
    for (size_t k = 0; k < s->rank; k++)
      b[k * outputs] = (float)(m->scale * s->row[k * step + (m->across ? e : 0)]);
  }
}

static bool is_empty(const float *row, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (row[i] != 0)
      return false;
  return true;
}

static int add_target(struct lls_lora *l, const struct slices *s,
                      enum lls_lora_target target, struct lls_error *err)
{
  const struct lls_lora_module *m = s->module;
  size_t outputs = lls_lora_outputs(s->config, target);
  struct lls_lora_part *part = &l->parts[(size_t)m->layer * LLS_LORA_TARGETS + target];
  if (widen(l, part, s->config->mixture.experts, s->inputs, outputs, (uint32_t)s->rank) <
      0)
    return lls_fail(err, -ENOMEM, "%s: out of memory", m->file);
  for (size_t e = 0; e < s->n; e++) {
    float *a = part->a + (s->first + e) * part->rank * s->inputs;
    if (!is_empty(a, part->rank * s->inputs))
      return lls_fail(err, -EINVAL, "%s: two pairs of matrices for %s", m->file, m->name);
    for (size_t k = 0; k < s->rank; k++)
      lls_tensor_read_row(&m->a, e * s->rank + k, a + k * s->inputs);
  }
  for (size_t i = 0; i < outputs; i++)
    read_output(s, target, part, outputs, i);
  return 0;
}

int lls_lora_add_experts(struct lls_lora *l, const struct lls_model_config *c,
                         const struct lls_lora_module *m, struct lls_error *err)
{
  bool every = m->expert == LLS_LORA_EVERY;
  uint32_t first = is_stacked(m) ? LLS_LORA_EXPERT_GATE : m->kind,
           last = is_stacked(m) ? LLS_LORA_EXPERT_UP : m->kind;
  struct slices s = {.config = c, .module = m, .n = every ? c->mixture.experts : 1};
  s.first = every ? 0 : m->expert;
  s.rank = m->a.rows / s.n;
  s.inputs = lls_lora_inputs(c, (enum lls_lora_target)first);
  for (uint32_t t = first; t <= last; t++)
    s.rows += lls_lora_outputs(c, (enum lls_lora_target)t);
  int rc = check_sizes(&s, err);
  if (rc < 0)
    return rc;
  s.row = malloc(m->b.columns * sizeof *s.row);
  if (s.row == NULL)
    return lls_fail(err, -ENOMEM, "%s: out of memory", m->file);
  for (uint32_t t = first; t <= last && rc == 0; t++)
    rc = add_target(l, &s, (enum lls_lora_target)t, err);
  free(s.row);
  return rc;
}
