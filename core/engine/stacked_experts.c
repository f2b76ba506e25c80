/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Experts whose matrices are one tensor of a folder, in numbers of its own type: of each
 * expert the rows of gate, then of up, or in turns; or the same turned around, as
 * (inputs, outputs). A GGUF file has such tensors too, of which checkpoints give one
 * expert at a time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/quantised.h"
#include "core/device/tensor.h"
#include "core/engine/mixture_loader.h"
#include "core/model/gguf.h"

#define NAME_MAX_CHARS 128

bool lls_loader_has_stack(const struct lls_loader *l, int layer)
{
  char name[NAME_MAX_CHARS];
  if (l->names->expert_stacked_up == NULL)
    return false;
  if (l->source->dummy)
    return l->names->expert_blocks_up == NULL;
  bool file = lls_is_gguf(l->source->folder);
  snprintf(name, sizeof name, "%s%s%s", l->names->experts, file ? "0." : "",
           l->names->expert_stacked_up);
  return lls_loader_has(l, layer, name, file ? ".weight" : "");
}

/* Views an expert's matrix as the folder has it, which is turned around or not. */
static int view_expert(const struct lls_loader *l, int layer, uint32_t expert,
                       const char *part, size_t rows, size_t columns,
                       struct lls_tensor_view *out)
{
  char name[NAME_MAX_CHARS];
  if (!l->source->dummy && lls_is_gguf(l->source->folder)) {
    snprintf(name, sizeof name, "%s%u.%s", l->names->experts, expert, part);
    return lls_loader_view(l, layer, name, ".weight", rows, columns, out);
  }
  snprintf(name, sizeof name, "%s%s", l->names->experts, part);
  int rc = lls_loader_view(l, layer, name, "", l->config->mixture.experts * rows, columns,
                           out);
  if (rc == 0)
    *out = lls_view_rows(out, expert * rows, rows);
  return rc;
}

/* True if the folder has the matrices turned around. The hub's files of such models do;
 * those that transformers 5 saves may not, which the shape of down shows. */
static bool is_turned(const struct lls_loader *l, int layer)
{
  const struct lls_model_config *c = l->config;
  struct lls_loader probe = *l;
  struct lls_error ignored;
  struct lls_tensor_view down;
  probe.err = &ignored;
  if (!l->names->experts_turned || l->source->dummy || lls_is_gguf(l->source->folder))
    return false;
  return c->hidden == c->mixture.ffn ||
         view_expert(&probe, layer, 0, l->names->expert_down, c->hidden, c->mixture.ffn,
                     &down) < 0;
}

/* Copies columns first, first + step, ... of a matrix of plain numbers as rows, of which
 * `inputs` are taken. */
static int turn(const struct lls_loader *l, const struct lls_tensor_view *from,
                const struct lls_stack_rows *r, struct lls_range inputs,
                struct lls_tensor_view *out)
{
  size_t bytes = lls_dtype_bytes(from->dtype);
  if (from->dtype > LLS_BF16)
    return lls_fail(l->err, -ENOTSUP,
                    "experts of type %s that are stored as (inputs, outputs) cannot be "
                    "read",
                    lls_dtype_name(from->dtype));
  char *to = malloc(r->taken.n * inputs.n * bytes);
  if (to == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  for (size_t i = 0; i < inputs.n; i++) {
    const char *row =
        (const char *)from->data + (inputs.first + i) * from->columns * bytes;
    for (size_t o = 0; o < r->taken.n; o++)
      memcpy(to + (o * inputs.n + i) * bytes,
             row + (r->first + (r->taken.first + o) * r->step) * bytes, bytes);
  }
  *out = (struct lls_tensor_view){.data = to,
                                  .dtype = from->dtype,
                                  .rows = r->taken.n,
                                  .columns = inputs.n,
                                  .row_stride = inputs.n};
  return 0;
}

/* Takes rows of an expert and some of their columns; *copy is NULL, or what the caller
 * frees. */
static int take(const struct lls_loader *l, int layer, uint32_t expert,
                const struct lls_stack_rows *r, struct lls_range inputs,
                struct lls_tensor_view *out, void **copy)
{
  struct lls_tensor_view all;
  bool turned = is_turned(l, layer);
  size_t rows = turned ? inputs.whole : r->rows,
         columns = turned ? r->rows : inputs.whole;
  int rc = view_expert(l, layer, expert, r->name, rows, columns, &all);
  *copy = NULL;
  if (rc < 0)
    return rc;
  if (turned) {
    rc = turn(l, &all, r, inputs, out);
    *copy = rc == 0 ? (void *)(uintptr_t)out->data : NULL;
    return rc;
  }
  rc = lls_loader_check_cut((struct lls_loader *)(uintptr_t)l, r->name, all.dtype,
                            &inputs);
  all = lls_view_rows(&all, r->first + r->taken.first, r->taken.n);
  *out = lls_view_columns(&all, inputs.first, inputs.n);
  return rc;
}

int lls_loader_stack_bias(const struct lls_loader *l, int layer, uint32_t expert,
                          const struct lls_stack_rows *r, struct lls_tensor_view *out)
{
  char name[NAME_MAX_CHARS];
  struct lls_tensor_view all;
  snprintf(name, sizeof name, "%s%s", l->names->experts, r->name);
  int rc =
      lls_loader_view(l, layer, name, "_bias", l->config->mixture.experts, r->rows, &all);
  float *row = rc == 0 ? malloc(r->rows * sizeof *row) : NULL;
  if (rc == 0 && row == NULL)
    rc = lls_fail(l->err, -ENOMEM, "out of memory");
  if (rc < 0)
    return rc;
  lls_tensor_read_row(&all, expert, row);
  for (size_t i = 0; i < r->taken.n; i++)
    row[i] = row[r->first + (r->taken.first + i) * r->step];
  *out = (struct lls_tensor_view){.data = row,
                                  .dtype = LLS_F32,
                                  .rows = 1,
                                  .columns = r->taken.n,
                                  .row_stride = r->taken.n};
  return 0;
}

static int load_parts(struct lls_loader *l, int layer, uint32_t expert,
                      const struct lls_stack_rows *parts, size_t n,
                      struct lls_range inputs, struct lls_weight **out)
{
  struct lls_tensor_view views[2] = {0}, biases[2] = {0};
  void *copies[2] = {0};
  bool bias = l->config->mixture.biases && inputs.first == 0;
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < n; i++) {
    rc = take(l, layer, expert, &parts[i], inputs, &views[i], &copies[i]);
    if (rc == 0 && bias)
      rc = lls_loader_stack_bias(l, layer, expert, &parts[i], &biases[i]);
  }
  if (rc == 0)
    rc = lls_loader_pack(l, views, bias ? biases : NULL, n, out);
  for (size_t i = 0; i < n; i++) {
    free(copies[i]);
    free((void *)(uintptr_t)biases[i].data);
  }
  return rc;
}

int lls_loader_stack_up(struct lls_loader *l, int layer, uint32_t expert,
                        struct lls_weight **out)
{
  struct lls_range ffn = l->shard->expert_ffn;
  bool turns = l->names->experts_alternate;
  struct lls_stack_rows gate = {l->names->expert_stacked_up, 2 * ffn.whole, ffn, 0,
                                turns ? 2 : 1};
  struct lls_stack_rows parts[] = {gate, gate};
  parts[1].first = turns ? 1 : ffn.whole;
  return load_parts(l, layer, expert, parts, 2, lls_range_all(l->config->hidden), out);
}

int lls_loader_stack_down(struct lls_loader *l, int layer, uint32_t expert,
                          struct lls_weight **out)
{
  struct lls_range rows = lls_range_all(l->config->hidden);
  const struct lls_stack_rows part = {l->names->expert_down, rows.n, rows, 0, 1};
  return load_parts(l, layer, expert, &part, 1, l->shard->expert_ffn, out);
}
