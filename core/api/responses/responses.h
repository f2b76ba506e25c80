/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /v1/responses by translation: a request is converted to one of /v1/chat/completions
 * before it is read, and the answering message, or its chunks, to items. So responses
 * support what chats support. response_memory.h keeps conversations between requests.
 *
 *   request   instructions, input items   --> messages            response_messages.c
 *             tools, tool_choice          --> a chat's            response_tools.c
 *                                         --> items to be stored  response_input.c
 *             what is too long            --> shortened           response_fit.c
 *   answer    reasoning, content, calls   --> items and events    response_items.c
 *             tokens                      --> "logprobs"          response_logprobs.c
 *
 * An item is open while its text is generated; the next item closes it. Events are
 * numbered from 0 in the order of their creation.
 */
#ifndef LLS_API_RESPONSES_RESPONSES_H
#define LLS_API_RESPONSES_RESPONSES_H

#include <jansson.h>

#include "core/api/generation.h"

struct lls_response;

/* Tokens of an answer with their log probabilities: response_logprobs.c. */
struct lls_response_tokens {
  json_t *list;                   /* all but the reasoning's; NULL: none taken yet */
  size_t n_taken;                 /* with those of the reasoning */
  size_t first, next;             /* in the list: of the message, and not given yet */
  size_t text_bytes, given_bytes; /* bytes of the message, bytes of its given tokens */
};

/* Takes the choice's unreported tokens, if the client wants log probabilities. */
void lls_response_tokens_take(struct lls_response_tokens *tokens,
                              const struct lls_choice *choice);
/* Begins a message that begins with this text. */
void lls_response_tokens_begin(struct lls_response_tokens *tokens, const char *text);
/* Return new arrays, or NULL if out of memory: the tokens of the message's next bytes,
 * and all tokens of the message so far. */
json_t *lls_response_tokens_give(struct lls_response_tokens *tokens, size_t bytes);
json_t *lls_response_tokens_given(const struct lls_response_tokens *tokens);
void lls_response_tokens_free(struct lls_response_tokens *tokens);

/* response_fit.c: see fit_prompts of struct lls_dialect. */
int lls_response_fit(const struct lls_api_config *config, const json_t *body,
                     const void *state, const struct lls_api_params *params,
                     struct lls_api_prompt_list *prompts, struct lls_api_error *error);
/* Returns true if the request allows that messages are dropped. */
bool lls_response_truncates(const struct lls_response *response);

/* response_messages.c: returns a chat's messages, a new reference, from a body and the
 * items before it; or NULL with *error set. */
json_t *lls_response_messages(json_t *body, const struct lls_past *past,
                              struct lls_api_error *error);
/* Replaces the input's references to items of stored responses by the items. Returns 0,
 * or -1 with *error set. */
int lls_response_resolve(json_t *body, const struct lls_past *past,
                         struct lls_api_error *error);

/* responses.c: checks what names a past, and renames the chat's parameters in errors. */
int lls_response_check_past(const json_t *body, const struct lls_past *past,
                            struct lls_api_error *error);
void lls_response_rename(struct lls_api_error *error);

/* Begins the text of a compaction (response_compact.c), which is otherwise a summary. */
#define LLS_COMPACTION "llmserve-1-"

/* response_tools.c: adds the tools of a body, and its tool_choice, to a chat. Tools that
 * this server can't have called are removed from the body and added to `unknown`.
 * Returns 0, or -1 with *error set. */
int lls_response_add_tools(json_t *body, json_t *chat, struct lls_unknown_names *unknown,
                           struct lls_api_error *error);
/* Returns true if `tools`, those of a response, has a custom one of this name. */
bool lls_response_is_custom(const json_t *tools, const json_t *name);
/* Returns the arguments of the function that stands for a custom tool, JSON text, from
 * the tool's input; and the input from the arguments. New references, or NULL if out of
 * memory. */
json_t *lls_response_arguments(json_t *input);
json_t *lls_response_custom_input(const char *text, size_t length);

/* Returns the id that an input item refers to, borrowed; or NULL for an item of another
 * type. */
json_t *lls_response_reference(const json_t *item);
/* Returns the ids that a body's input refers to, a new reference. */
json_t *lls_response_references(const json_t *body);
/* Returns the id of the conversation that a body, or the members that an answer repeats
 * of it, belongs to, borrowed; or NULL. */
const char *lls_response_conversation(const json_t *body);
/* Returns true if the body continues a stored response or a conversation, or refers to
 * items. */
bool lls_response_needs(const json_t *body);

/* Returns the valid `input` of a body as JSON text to be stored, each item with its id;
 * the caller frees it. NULL if out of memory. */
char *lls_response_input_text(const json_t *input);

/* Returns the items of such a text, a new reference; NULL without memory, or for NULL. */
json_t *lls_response_parse_items(const char *text);

/* echo: the members of the answer that repeat the request. input: stored with the
 * response, or NULL. Both are taken over. Returns NULL if out of memory. */
struct lls_response *lls_response_create(json_t *echo, char *input);
/* Returns the input to store with the response, or NULL if it is not to be stored. */
const char *lls_response_input(const struct lls_response *response);
/* Returns the id of the response that this one continues, or NULL. */
const char *lls_response_previous(const struct lls_response *response);
/* Returns the id of the conversation that the response belongs to, or NULL. */
const char *lls_response_belongs(const struct lls_response *response);
/* Returns true if the client does not wait for the response: detached.h. */
bool lls_response_is_background(const struct lls_response *response);
/* Frees a struct lls_response; NULL is allowed. */
void lls_response_free(void *response);

/* The answer, whole and in events, each with its "type": see struct lls_dialect. */
json_t *lls_response_whole(const struct lls_generation *generation);
json_t *lls_response_chunk(struct lls_choice *choice);
json_t *lls_response_progress(struct lls_choice *choice);
json_t *lls_response_end(const struct lls_generation *generation);
json_t *lls_response_failure(const struct lls_generation *generation,
                             const struct lls_api_error *error);

/* Return, of a response in the background, its first events, which say that it waits; the
 * response as it is now; the last events after a cancellation. */
json_t *lls_response_queued(const struct lls_generation *generation);
json_t *lls_response_now(const struct lls_generation *generation);
json_t *lls_response_cancelled(const struct lls_generation *generation);
/* Returns the response in the last one of these events, borrowed, or NULL. */
json_t *lls_response_of(const json_t *events);

#endif
