/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llama.cpp's own endpoints, by translation to completions:
 *
 *   POST /completion   body --> completion         completion.c
 *   POST /infill       the same, with the prompt made of two texts   infill.c
 *   both               answer, whole and in events completion_answer.c
 *   GET /props, /slots                             props.c
 *   [server] llamacpp: OpenAI's paths as llama-server has them   as_llamacpp.c
 */
#ifndef LLS_API_LLAMACPP_LLAMACPP_H
#define LLS_API_LLAMACPP_LLAMACPP_H

#include "core/api/generation.h"
#include "core/base/json_memory.h"

/* The state of an answer. */
struct lls_llamacpp_answer {
  json_t *fields;  /* response_fields: the members that the client wants; NULL: all */
  bool verbose;    /* chats: the answer has "__verbose" */
  bool *new_lines; /* (n_choices) streamed: text with a line end was sent; or NULL */
};

/* Converts the body of /completion to that of a completion: see struct lls_dialect. */
json_t *lls_llamacpp_translate(json_t *body, const struct lls_past *past, void **state,
                               struct lls_unknown_names *unknown,
                               struct lls_api_error *error);
/* Renames parameters of completions to llama.cpp's. */
void lls_llamacpp_rename(struct lls_api_error *error);

/* Returns "generation_settings": the values that the parameters have. */
json_t *lls_llamacpp_settings(const struct lls_api *api,
                              const struct lls_api_params *params);

/* Returns a finished choice as /completion has it; takes the content over. */
json_t *lls_llamacpp_choice(const struct lls_choice *choice, json_t *content);

/* [any] Returns the dialect of a path that has `dialect` without [server] llamacpp. */
const struct lls_dialect *lls_llamacpp_instead(const char *path,
                                               const struct lls_dialect *dialect);

/* The answer: see struct lls_dialect. */
json_t *lls_llamacpp_whole(const struct lls_generation *generation);
json_t *lls_llamacpp_chunk(struct lls_choice *choice);
json_t *lls_llamacpp_progress(struct lls_choice *choice);
json_t *lls_llamacpp_end(const struct lls_generation *generation);
json_t *lls_llamacpp_failure(const struct lls_generation *generation,
                             const struct lls_api_error *error);
json_t *lls_llamacpp_error(const struct lls_api_error *error);
void lls_llamacpp_free(void *state);

#endif
