/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the keys of config.json that no architecture's file reads. A key may change
 * what the model computes, so a model with a key of unknown meaning is refused.
 *
 * A key is accepted if one of these holds:
 * 1. it was read (lls_json_get records names);
 * 2. it is in the table of config_keys.c, and its value changes nothing: any value for
 *    keys about training, sampling and files, else the value of a plain model;
 * 3. it is not in the table, and its value is null, false, or empty: it is switched off;
 * 4. its name begins with "_" or shows that it is unrelated to the graph (a version, a
 *    path, dropout, a loss, a tokenizer, a token's id).
 */
#ifndef LLS_MODEL_CONFIG_KEYS_H
#define LLS_MODEL_CONFIG_KEYS_H

#include "core/model/json.h"
#include "core/model/model_config.h"

/* Checks an object of config.json after `config` was filled from it. Returns 0; or
 * -ENOTSUP with the key's name and value in err. */
int lls_config_check_keys(const struct lls_json *, const struct lls_model_config *config,
                          struct lls_error *err);

/* Checks "rope_scaling" or "rope_parameters", and "quantization_config", in the same
 * way. */
int lls_config_check_rope_keys(const struct lls_json *, struct lls_error *err);
int lls_config_check_quantisation_keys(const struct lls_json *, struct lls_error *err);

#endif
