/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ollama's API, by translation to chats, completions and embeddings:
 *
 *   POST /api/chat, /api/generate     body --> chat, or completion if raw chat_request.c
 *                                     answer, whole and in lines            chat_lines.c
 *   POST /api/embed, /api/embeddings                                        embed.c
 *   GET /api/tags, /api/ps, /api/version, POST /api/show ollama_models.c
 *
 * A stream is lines of JSON; the last one has "done": true and the figures.
 */
#ifndef LLS_API_OLLAMA_OLLAMA_H
#define LLS_API_OLLAMA_OLLAMA_H

#include "core/api/generation.h"
#include "core/base/json_memory.h"

/* A call of a streamed answer: it is sent when it is complete. */
struct lls_ollama_call {
  json_t *id, *name; /* strings */
  struct lls_text arguments;
};

/* The state of an answer. */
struct lls_ollama_answer {
  bool has_message;              /* of /api/chat: "message"; else "response" */
  const char *loads;             /* done_reason of a request without a prompt; or NULL */
  struct lls_ollama_call *calls; /* (n_calls) */
  uint32_t n_calls, call_capacity;
};

/* Moves the model's name into the form without the tag ":latest", and the members of
 * "options" under the names that they have here; reports members without effect. Returns
 * 0, or -1 with *error set. */
int lls_ollama_common(json_t *form, struct lls_unknown_names *unknown,
                      struct lls_api_error *error);

extern const struct lls_framing lls_ollama_lines;

/* The answer: see struct lls_dialect. */
json_t *lls_ollama_whole(const struct lls_generation *generation);
json_t *lls_ollama_chunk(struct lls_choice *choice);
json_t *lls_ollama_end(const struct lls_generation *generation);
json_t *lls_ollama_failure(const struct lls_generation *generation,
                           const struct lls_api_error *error);
json_t *lls_ollama_error(const struct lls_api_error *error);
void lls_ollama_free(void *state);

#endif
