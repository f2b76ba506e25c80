/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the table of parameters (api_params.c) and the functions that read its rows
 * of type LLS_ROW_SPECIAL. */
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

/* 2^53: a double holds every integer up to it exactly. */
#define LLS_PARAM_ENDLESS 0x1p53

struct lls_row {
  const char *name;
  uint16_t endpoints; /* enum lls_endpoint, or-ed */
  uint8_t type;
  size_t offset; /* offset in lls_api_params of a member: bool, int64_t, double, or ns in
                    int64_t */
  double min, max;
  bool endless;                  /* -1 means LLS_ENDLESS, as in llama.cpp */
  lls_param_reader read;         /* LLS_ROW_SPECIAL */
  const struct lls_row *members; /* LLS_ROW_OBJECT; ends with a row without name */
  bool ours;                     /* llmserve's own: an unknown name in it is an error */
};

/* params_rules.c: what differs by endpoint. lls_params_defaults sets *out to the
 * defaults; lls_params_check_model refuses an endpoint that the model does not support;
 * lls_params_check checks the parameters together, once all are read. The checks return
 * 0, or -1 with *error set. */
void lls_params_defaults(const struct lls_params_context *context,
                         struct lls_api_params *out);
int lls_params_check_model(const struct lls_params_context *context,
                           struct lls_api_error *error);
int lls_params_check(const json_t *body, const struct lls_params_context *context,
                     struct lls_api_params *out, struct lls_api_error *error);

/* params_value.c: lls_row_read reads a row of one value, called `name` in errors.
 * lls_row_expected sets the error "`name` must be `what`" and returns -1. */
int lls_row_read(const json_t *value, const struct lls_row *row, const char *name,
                 struct lls_api_params *out, struct lls_api_error *error);
int lls_row_expected(const char *what, const struct lls_row *row, const char *name,
                     const json_t *value, struct lls_api_error *error);

/* params_value.c: tokenises a text of parameter `name`, without the tokens that begin a
 * prompt; the caller frees *ids. */
int lls_param_encode(const char *text, size_t length, const char *name,
                     const struct lls_params_context *context, int32_t **ids,
                     size_t *count, struct lls_api_error *error);

int lls_param_prediction(const json_t *value, const char *name,
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
/* params_samplers.c. lls_params_check_samplers sets DRY's default breakers, and refuses
 * samplers that the device lacks. */
int lls_param_breakers(const json_t *value, const char *name,
                       const struct lls_params_context *context,
                       struct lls_api_params *out, struct lls_api_error *error);
int lls_param_samplers(const json_t *value, const char *name,
                       const struct lls_params_context *context,
                       struct lls_api_params *out, struct lls_api_error *error);
int lls_params_check_samplers(const json_t *body,
                              const struct lls_params_context *context,
                              struct lls_api_params *out, struct lls_api_error *error);
int lls_param_logit_bias(const json_t *value, const char *name,
                         const struct lls_params_context *context,
                         struct lls_api_params *out, struct lls_api_error *error);
int lls_param_class(const json_t *value, const char *name,
                    const struct lls_params_context *context, struct lls_api_params *out,
                    struct lls_api_error *error);
/* params_session.c */
int lls_param_cache_key(const json_t *value, const char *name,
                        const struct lls_params_context *context,
                        struct lls_api_params *out, struct lls_api_error *error);
int lls_param_cache_retention(const json_t *value, const char *name,
                              const struct lls_params_context *context,
                              struct lls_api_params *out, struct lls_api_error *error);
/* service_tier: maps OpenAI's tiers to classes. */
int lls_param_tier(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error);
/* params_trusted.c. lls_params_check_logprob_ids runs once all parameters are read. */
int lls_param_logprob_ids(const json_t *value, const char *name,
                          const struct lls_params_context *context,
                          struct lls_api_params *out, struct lls_api_error *error);
int lls_params_check_logprob_ids(const struct lls_params_context *context,
                                 const struct lls_api_params *params,
                                 struct lls_api_error *error);
int lls_param_chat_template(const json_t *value, const char *name,
                            const struct lls_params_context *context,
                            struct lls_api_params *out, struct lls_api_error *error);
/* params_trusted.c: llama.cpp's choice of an adapter by its number, and of its scale. */
int lls_params_adapter(const json_t *value, const char *name, struct lls_lora_set *,
                       struct lls_scaled_adapter *out, struct lls_api_error *error);
int lls_param_lora(const json_t *value, const char *name,
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
/* params_structured.c: parameters that constrain the answer's format. */
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
/* The end at which a prompt is cut: "left", or "right" for an encoder. */
int lls_param_truncation_side(const json_t *value, const char *name,
                              const struct lls_params_context *context,
                              struct lls_api_params *out, struct lls_api_error *error);
/* A flag that can only be true. */
int lls_param_true(const json_t *value, const char *name,
                   const struct lls_params_context *context, struct lls_api_params *out,
                   struct lls_api_error *error);

/* For the schema: the rows, ended by one without a name; the parameters that other code
 * reads, and those that are refused, by their index, which return false after the last
 * one. */
extern const struct lls_row lls_param_rows[];
bool lls_param_elsewhere(size_t i, const char **name, unsigned *endpoints);
bool lls_param_refused_row(size_t i, const char **name, unsigned *endpoints);

/* params_refused.c. lls_params_refuse returns 0, or -1 if the body requests an
 * unsupported feature. The others return true if `name` is the parameter of such a
 * feature; if any server may ignore it; if `value` requests nothing, as false and ""
 * do. */
int lls_params_refuse(const json_t *body, enum lls_endpoint endpoint,
                      struct lls_api_error *error);
bool lls_param_is_refused(const char *name, enum lls_endpoint endpoint);
bool lls_param_is_harmless(const char *name);
bool lls_param_asks_nothing(const json_t *value);
/* Returns true if the value of a parameter without effect here would have one elsewhere.
 */
bool lls_param_asks(const char *name, const json_t *value);

#endif
