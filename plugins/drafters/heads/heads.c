/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses by the layer that a model was trained to guess with: multi-token prediction
 * ("Better & Faster Large Language Models via Multi-token Prediction", Gloeckle et al.,
 * 2024; DeepSeek-V3, 2024, section 2.2). The engine runs the layer, and this says how
 * far.
 */
#include "model/asker.h"

static const struct lls_param parameters[] = {ASKER_PARAM};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_DRAFTER,
    .id = "heads",
    .version = "1.0",
    .description = "guesses by the model's own layer for that (MTP), as far as that pays",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct asker_params),
    .vtable = &asker_vtable,
};
