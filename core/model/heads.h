/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers that were trained to guess for a model, read as models of one layer: the one
 * behind the model's last (multi-token prediction, MTP), which is mtp.* of Qwen3-Next,
 * Qwen3.5 and 3.6, layer num_hidden_layers of DeepSeek-V3, GLM-4.5 and models like them,
 * and whose embedding and head are those of the model; and EAGLE-3's, in folders of their
 * own, which may have both.
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

/*
 * Fills *out with the configuration of the EAGLE-3 layer in a folder of its own
 * (LlamaForCausalLMEagle3), which guesses for `model`. Returns 0; -ENOENT: the folder is
 * no such layer; -ENOTSUP or -EINVAL: it does not fit the model, or has what llmserve
 * does not compute; or the error of the files.
 */
int lls_eagle_config_read(const char *folder, const struct lls_model_config *model,
                          struct lls_model_config *out, struct lls_error *err);

#endif
