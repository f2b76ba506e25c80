/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads what layers that guess (core/model/heads.h) have outside of the layer: the
 * products and norms that make their rows, and EAGLE-3's embedding, head and tokens,
 * where the folder has them. Else embedding and head are those of the model, which
 * outlives the layer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/tensor_loader.h"
#include "core/model/checkpoint.h"

/* Takes the model's embedding and head. */
static void borrow_ends(struct lls_weights *w, const struct lls_weights *ends)
{
  w->borrows_embedding = w->borrows_head = true;
  w->embedding = ends->embedding;
  w->head = ends->head;
}

static int load_join(struct lls_loader *l, int layer, struct lls_range columns,
                     struct lls_weight **out)
{
  const struct lls_part part = {l->names->join, lls_range_all(l->config->hidden)};
  return lls_loader_matrix(l, layer, &part, 1, columns, false, out);
}

static int load_mtp(struct lls_loader *l)
{
  struct lls_weights *w = l->w;
  const struct lls_tensor_names *n = l->names;
  const size_t hidden = l->config->hidden;
  int layer = n->join_in_layer ? 0 : LLS_NO_LAYER, rc = 0;
  for (size_t i = 0; rc == 0 && i < 2; i++)
    rc = load_join(l, layer, (struct lls_range){i * hidden, hidden, 2 * hidden},
                   &w->join[i]);
  if (rc == 0)
    rc = lls_loader_norm(l, layer, n->join_embedding, &w->join_norm[0]);
  if (rc == 0)
    rc = lls_loader_norm(l, layer, n->join_hidden, &w->join_norm[1]);
  return rc < 0 ? rc : lls_loader_norm(l, layer, n->join_norm, &w->final_norm);
}

/* Reads the token of each row of the head; d2t has its distance to the row's number.
 * Dummy weights have the first tokens. */
static int read_tokens(struct lls_loader *l, int32_t *tokens)
{
  const uint32_t n = l->config->eagle.rows;
  const void *data = NULL;
  int64_t distance = 0, last = -1;
  int rc = l->source->dummy ? 0
                            : lls_checkpoint_bytes(l->w->file, "d2t", n * sizeof distance,
                                                   &data, l->err);
  for (uint32_t i = 0; rc == 0 && i < n; i++) {
    if (data != NULL)
      memcpy(&distance, (const char *)data + i * sizeof distance, sizeof distance);
    if (distance <= last - (int64_t)i ||
        distance >= (int64_t)l->config->vocab - (int64_t)i)
      rc = lls_fail(l->err, -EINVAL, "%s: d2t does not rise within the %u tokens",
                    l->source->folder, l->config->vocab);
    else
      tokens[i] = (int32_t)(last = (int64_t)i + distance);
  }
  return rc;
}

static int load_tokens(struct lls_loader *l)
{
  const uint32_t n = l->config->eagle.rows;
  if (n == l->config->vocab)
    return 0;
  l->w->tokens = malloc(n * sizeof *l->w->tokens);
  if (l->w->tokens == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  return read_tokens(l, l->w->tokens);
}

static int load_own_head(struct lls_loader *l)
{
  const struct lls_model_config *c = l->config;
  struct lls_tensor_view v;
  l->w->borrows_head = false;
  l->w->head = NULL;
  int rc = lls_loader_view(l, LLS_NO_LAYER, l->names->head, ".weight", c->eagle.rows,
                           c->hidden, &v);
  return rc < 0 ? rc : lls_loader_pack(l, &v, NULL, 1, &l->w->head);
}

static int load_eagle(struct lls_loader *l)
{
  struct lls_weights *w = l->w;
  const struct lls_model_config *c = l->config;
  const struct lls_tensor_names *n = l->names;
  int rc =
      load_join(l, LLS_NO_LAYER,
                lls_range_all(LLS_EAGLE_LAYERS * (size_t)c->eagle.hidden), &w->join[0]);
  if (rc == 0)
    rc = lls_loader_norm(l, 0, n->join_embedding, &w->join_norm[0]);
  if (rc == 0)
    rc = lls_loader_norm(l, LLS_NO_LAYER, n->join_norm, &w->final_norm);
  if (rc == 0 && c->eagle.own_embedding) {
    w->borrows_embedding = false;
    w->embedding = NULL;
    rc = lls_loader_table(l, n->embedding, c->vocab, lls_range_all(c->hidden),
                          &w->embedding);
  }
  if (rc == 0 && c->eagle.own_head)
    rc = load_own_head(l);
  return rc < 0 ? rc : load_tokens(l);
}

int lls_loader_joined_ends(struct lls_loader *l)
{
  borrow_ends(l->w, l->source->ends);
  return l->config->eagle.rows > 0 ? load_eagle(l) : load_mtp(l);
}
