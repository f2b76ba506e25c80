/* SPDX-License-Identifier: Apache-2.0 */
/* Between the table of parameters (params.c) and the readers of its odd rows. */
#ifndef LLS_API_PARAMS_INTERNAL_H
#define LLS_API_PARAMS_INTERNAL_H

#include "core/api/params.h"

typedef int (*lls_param_reader)(const json_t *value, const char *name,
                                const struct lls_params_context *context,
                                struct lls_api_params *out, struct lls_api_error *error);

int lls_param_model(const json_t *value, const char *name,
                    const struct lls_params_context *context, struct lls_api_params *out,
                    struct lls_api_error *error);
int lls_param_seed(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error);
int lls_param_stop(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error);
int lls_param_stop_token_ids(const json_t *value, const char *name,
                             const struct lls_params_context *context,
                             struct lls_api_params *out, struct lls_api_error *error);
int lls_param_logit_bias(const json_t *value, const char *name,
                         const struct lls_params_context *context,
                         struct lls_api_params *out, struct lls_api_error *error);
int lls_param_class(const json_t *value, const char *name,
                    const struct lls_params_context *context, struct lls_api_params *out,
                    struct lls_api_error *error);
/* service_tier: the class that OpenAI's tiers come to. */
int lls_param_tier(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error);
/* user: the tenant. */
int lls_param_user(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error);
int lls_param_response_format(const json_t *value, const char *name,
                              const struct lls_params_context *context,
                              struct lls_api_params *out, struct lls_api_error *error);
/* For what this server does not do: passes the value that asks for nothing. */
int lls_param_unsupported(const json_t *value, const char *name,
                          const struct lls_params_context *context,
                          struct lls_api_params *out, struct lls_api_error *error);

#endif
