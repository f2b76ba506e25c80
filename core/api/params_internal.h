/* SPDX-License-Identifier: Apache-2.0 */
/* Between the table of parameters (api_params.c) and the readers of its odd rows. */
#ifndef LLS_API_PARAMS_INTERNAL_H
#define LLS_API_PARAMS_INTERNAL_H

#include "core/api/api_params.h"

typedef int (*lls_param_reader)(const json_t *value, const char *name,
                                const struct lls_params_context *context,
                                struct lls_api_params *out, struct lls_api_error *error);

enum lls_row_type {
  LLS_ROW_BOOLEAN,
  LLS_ROW_INTEGER,
  LLS_ROW_NUMBER,
  LLS_ROW_MILLISECONDS,
  LLS_ROW_OBJECT,
  LLS_ROW_SPECIAL
};

/* The largest integer that a double holds with all smaller ones. */
#define LLS_PARAM_ENDLESS 0x1p53

struct lls_row {
  const char *name;
  uint16_t endpoints; /* of enum lls_endpoint, together */
  uint8_t type;
  size_t offset; /* bool, int64_t, double, int64_t (ns) */
  double min, max;
  bool endless;                  /* -1 is the most there may be, as llama.cpp has it */
  lls_param_reader read;         /* LLS_ROW_SPECIAL */
  const struct lls_row *members; /* LLS_ROW_OBJECT; ends with a row without name */
  bool ours; /* no other server has it: an unknown name in it is a mistake */
};

/* params_value.c: reads a row that is one value, called `name` in errors, and the error
 * of a value that is not `what` the row wants. */
int lls_row_read(const json_t *value, const struct lls_row *row, const char *name,
                 struct lls_api_params *out, struct lls_api_error *error);
int lls_row_expected(const char *what, const struct lls_row *row, const char *name,
                     const json_t *value, struct lls_api_error *error);

/* params_value.c: the tokens of a text in `name`, without those that begin a prompt; the
 * caller frees them. */
int lls_param_encode(const char *text, size_t length, const char *name,
                     const struct lls_params_context *context, int32_t **ids,
                     size_t *count, struct lls_api_error *error);

int lls_param_model(const json_t *value, const char *name,
                    const struct lls_params_context *context, struct lls_api_params *out,
                    struct lls_api_error *error);
int lls_param_seed(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error);
int lls_param_stop(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error);
int lls_param_stop_regex(const json_t *value, const char *name,
                         const struct lls_params_context *context,
                         struct lls_api_params *out, struct lls_api_error *error);
int lls_param_stop_token_ids(const json_t *value, const char *name,
                             const struct lls_params_context *context,
                             struct lls_api_params *out, struct lls_api_error *error);
int lls_param_allowed_token_ids(const json_t *value, const char *name,
                                const struct lls_params_context *context,
                                struct lls_api_params *out, struct lls_api_error *error);
int lls_param_bad_words(const json_t *value, const char *name,
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
int lls_param_cache_salt(const json_t *value, const char *name,
                         const struct lls_params_context *context,
                         struct lls_api_params *out, struct lls_api_error *error);
int lls_param_user(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error);
int lls_param_response_format(const json_t *value, const char *name,
                              const struct lls_params_context *context,
                              struct lls_api_params *out, struct lls_api_error *error);
int lls_param_tools(const json_t *value, const char *name,
                    const struct lls_params_context *context, struct lls_api_params *out,
                    struct lls_api_error *error);
int lls_param_tool_choice(const json_t *value, const char *name,
                          const struct lls_params_context *context,
                          struct lls_api_params *out, struct lls_api_error *error);
/* params_structured.c: what the answer keeps to. */
int lls_param_schema(const json_t *value, const char *name,
                     const struct lls_params_context *context, struct lls_api_params *out,
                     struct lls_api_error *error);
int lls_param_regex(const json_t *value, const char *name,
                    const struct lls_params_context *context, struct lls_api_params *out,
                    struct lls_api_error *error);
int lls_param_choice(const json_t *value, const char *name,
                     const struct lls_params_context *context, struct lls_api_params *out,
                     struct lls_api_error *error);
int lls_param_grammar(const json_t *value, const char *name,
                      const struct lls_params_context *context,
                      struct lls_api_params *out, struct lls_api_error *error);
int lls_param_structured_outputs(const json_t *value, const char *name,
                                 const struct lls_params_context *context,
                                 struct lls_api_params *out, struct lls_api_error *error);
int lls_param_encoding_format(const json_t *value, const char *name,
                              const struct lls_params_context *context,
                              struct lls_api_params *out, struct lls_api_error *error);
int lls_param_modalities(const json_t *value, const char *name,
                         const struct lls_params_context *context,
                         struct lls_api_params *out, struct lls_api_error *error);
/* The end that is cut off of a prompt: "left", of an encoder's "right". */
int lls_param_truncation_side(const json_t *value, const char *name,
                              const struct lls_params_context *context,
                              struct lls_api_params *out, struct lls_api_error *error);
/* A flag that can only be true. */
int lls_param_true(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error);

/* params_refused.c: 0, or -1 where the body asks for what this server does not do; if a
 * name is one of these; if a name may be ignored by any server; if a value asks for
 * nothing, as false and "" do. */
int lls_params_refuse(const json_t *body, enum lls_endpoint endpoint,
                      struct lls_api_error *error);
bool lls_param_is_refused(const char *name, enum lls_endpoint endpoint);
bool lls_param_is_harmless(const char *name);
bool lls_param_asks_nothing(const json_t *value);

/* For what this server does not do: passes the value that asks for nothing. */
int lls_param_unsupported(const json_t *value, const char *name,
                          const struct lls_params_context *context,
                          struct lls_api_params *out, struct lls_api_error *error);

#endif
