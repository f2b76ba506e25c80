/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer behind a model's last one that was trained to guess (multi-token prediction,
 * MTP): mtp.* of Qwen3-Next, Qwen3.5 and 3.6, layer num_hidden_layers of DeepSeek-V3,
 * GLM-4.5 and models like them. It is read as a model of one layer whose embedding and
 * head are those of the model.
 */
#ifndef LLS_MODEL_HEADS_H
#define LLS_MODEL_HEADS_H

#include "core/model/model_config.h"

/*
 * Fills *out with the configuration of the layer that guesses for `model`. dummy: no
 * tensors are looked for, config.json says whether there is such a layer. Returns 0;
 * -ENOENT: there is none; -ENOTSUP: it has an embedding of its own; or the error of the
 * checkpoint.
 */
int lls_heads_config_read(const char *folder, bool dummy,
                          const struct lls_model_config *model,
                          struct lls_model_config *out, struct lls_error *err);

#endif
