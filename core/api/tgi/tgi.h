/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API of Hugging Face's text-generation-inference (TGI), by translation to
 * completions: POST /generate and /generate_stream, and POST /, which huggingface_hub's
 * InferenceClient sends.
 *
 *   request   inputs, parameters --> completion     generate.c
 *   answer    generated_text, details; events       generated.c
 */
#ifndef LLS_API_TGI_TGI_H
#define LLS_API_TGI_TGI_H

#include "core/api/generation.h"
#include "core/base/json_memory.h"

/* The state of an answer. */
struct lls_tgi_answer {
  bool in_list;         /* of POST /: the answer is the only item of a list */
  bool details;         /* the client wants them */
  bool full;            /* generated_text begins with the prompt */
  struct lls_text text; /* streamed: the text sent so far */
  uint32_t n_events;    /* streamed: events sent so far */
  int32_t last;         /* streamed: the last token sent */
};

/* The answer: see struct lls_dialect. */
json_t *lls_tgi_whole(const struct lls_generation *generation);
json_t *lls_tgi_chunk(struct lls_choice *choice);
json_t *lls_tgi_end(const struct lls_generation *generation);
json_t *lls_tgi_failure(const struct lls_generation *generation,
                        const struct lls_api_error *error);
json_t *lls_tgi_error(const struct lls_api_error *error);
void lls_tgi_free(void *state);

#endif
