/* SPDX-License-Identifier: Apache-2.0 */
/* See heads.h. */
#include "core/model/heads.h"

#include <errno.h>
#include <stdio.h>

#include "core/model/architecture.h"
#include "core/model/checkpoint.h"
#include "core/model/gguf.h"

/* Looks for the first tensor of the layer, with each of the prefixes. */
static bool has_heads(const struct lls_checkpoint *file,
                      const struct lls_model_config *model)
{
  const struct lls_tensor_names *names = model->architecture->heads;
  bool found = false;
  for (size_t i = 0; !found && i < 4 && names->prefixes[i] != NULL; i++) {
    char name[160];
    if (names->join_in_layer)
      snprintf(name, sizeof name, "%s%s%u.%s.weight", names->prefixes[i], names->layers,
               model->layers, names->join);
    else
      snprintf(name, sizeof name, "%s%s.weight", names->prefixes[i], names->join);
    found = lls_checkpoint_has(file, name);
  }
  return found;
}

static int look_for(const char *folder, const struct lls_model_config *model,
                    struct lls_error *err)
{
  struct lls_checkpoint *file = NULL;
  int rc = lls_checkpoint_open(folder, &file, err);
  if (rc < 0)
    return rc;
  if (!has_heads(file, model))
    rc = lls_fail(err, -ENOENT, "%s has no layer that guesses (MTP)", folder);
  else if (lls_checkpoint_has(file, "mtp.embed_tokens.weight"))
    rc = lls_fail(err, -ENOTSUP,
                  "%s: the layer that guesses has an embedding of its own "
                  "(mtp.embed_tokens); that of the model is used for others",
                  folder);
  lls_checkpoint_close(file);
  return rc;
}

/* Returns the last layer that attends, whose kind is that of the layer that guesses. */
static uint32_t last_attending(const struct lls_model_config *c)
{
  uint32_t i = c->layers - 1;
  while (i > 0 && !lls_layer_attends(c, i))
    i--;
  return i;
}

int lls_heads_config_read(const char *folder, bool dummy,
                          const struct lls_model_config *model,
                          struct lls_model_config *out, struct lls_error *err)
{
  int rc = 0;
  if (model->architecture->heads == NULL)
    return lls_fail(err, -ENOENT, "%s has no layer that guesses which llmserve reads",
                    model->architecture->title);
  if (lls_is_gguf(folder))
    return lls_fail(err, -ENOENT, "%s: layers that guess are not read from GGUF files",
                    folder);
  if (!dummy)
    rc = look_for(folder, model, err);
  else if (!model->heads_behind)
    rc = lls_fail(err, -ENOENT, "%s: config.json names no layer that guesses", folder);
  if (rc < 0)
    return rc;
  *out = *model;
  out->layer[0] = model->layer[last_attending(model)];
  out->layers = 1;
  out->joins = true;
  out->first_layer = model->architecture->heads->join_in_layer ? model->layers : 0;
  out->score.rows = 0;
  return 0;
}
