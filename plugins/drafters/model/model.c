/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses what the draft model does ([plugins] draft_model): "Fast inference from
 * transformers via speculative decoding" (Leviathan et al., 2023), where the engine runs
 * the small model and this says how far (candidates.h).
 */
#include "asker.h"

static const struct lls_param parameters[] = {ASKER_PARAM};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_DRAFTER,
    .id = "model",
    .version = "1.0",
    .description = "guesses what a small model does, as far as that pays",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct asker_params),
    .vtable = &asker_vtable,
};
