/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of a generation request, read from JSON by a table.
 *
 * A row of the table in api_params.c names a parameter, its type, its range and the
 * member of struct lls_api_params that it sets: a new parameter is a new row. null
 * counts as absent. A parameter that requests an unsupported feature is refused
 * (params_refused.c). A parameter without effect is reported to the caller, or refused
 * if the limits say so.
 */
#ifndef LLS_API_API_PARAMS_H
#define LLS_API_API_PARAMS_H

#include <jansson.h>
#include <llmserve/types.h>

#include "core/api/api_error.h"
#include "core/base/stop_strings.h"
#include "text/grammar/regex_scan.h"
#include "core/api/structured.h"
#include "core/config/limits.h"
#include "core/device/sampling.h"
#include "core/instance/dry.h"
#include "core/model/pooling.h"
#include "core/traces/trace_parent.h"

/* The endpoint of the body. /tokenize appears twice, because a text and chat messages
 * have different parameters. */
enum lls_endpoint {
  LLS_COMPLETIONS = 1,
  LLS_CHAT = 2,
  LLS_TOKENIZE = 4,
  LLS_TOKENIZE_CHAT = 8,
  LLS_DETOKENIZE = 16,
  LLS_EMBEDDINGS = 32,
  LLS_RERANK = 64,
  LLS_SCORE = 128,
  LLS_CLASSIFY = 256,
};

#define LLS_UNSET   INT64_C(-1)
#define LLS_ENDLESS INT64_MAX /* no limit but the available room */

#define LLS_TENANT_BYTES 129 /* a longer name is cut and ends with a hash */

/* tool_choice. With NONE the template still gets the tools, as in vLLM, but the answer
 * is not parsed for calls. */
enum lls_tool_choice {
  LLS_TOOL_CHOICE_NONE,
  LLS_TOOL_CHOICE_AUTO,
  LLS_TOOL_CHOICE_REQUIRED,
  LLS_TOOL_CHOICE_NAMED
};

/* The tools that an answer may call. */
struct lls_api_tools {
  json_t *list; /* OpenAI's array, a reference; NULL: no tools */
  enum lls_tool_choice choice;
  const json_t *named; /* NAMED: the function, borrowed from list */
  bool parallel;       /* several calls in an answer */
  bool beside_form;    /* the answer is either calls or the response format */
};

struct lls_api_params {
  struct lls_trace_parent trace; /* what the header traceparent says */
  bool stream, include_usage, continuous_usage;
  int64_t n;
  /* most tokens; LLS_UNSET, or LLS_ENDLESS */
  int64_t max_tokens, max_completion_tokens;
  int64_t default_tokens; /* used without max_tokens; or LLS_ENDLESS */
  bool cut_answer;        /* max_tokens beyond the room are cut to it, not refused */
  int64_t min_tokens;
  double temperature, top_p, min_p;
  double repetition_penalty, presence_penalty, frequency_penalty;
  int64_t top_k;
  int64_t penalty_last_n; /* tokens that penalties look at; LLS_ENDLESS: all; 0: none */
  double typical_p, top_n_sigma, xtc_probability, xtc_threshold;
  double dynatemp_range, dynatemp_exponent, mirostat_tau, mirostat_eta;
  int64_t mirostat;
  double dry_multiplier, dry_base;
  int64_t dry_allowed_length, dry_last_n;
  struct lls_dry_breakers dry_breakers;
  bool has_order; /* of filters: enum lls_filter */
  uint8_t order[LLS_FILTERS];
  uint32_t n_order;
  bool without_penalties, without_dry; /* the order has no place for them */
  bool drawn_logprobs; /* log probabilities are those of the distribution drawn from */
  bool has_seed;
  uint64_t seed;
  bool ignore_eos;
  struct lls_stop_set stop;
  struct lls_regex_finder **stop_regex; /* (n_stop_regex) */
  size_t n_stop_regex;
  bool include_stop; /* keep the stop string in the answer */
  int32_t *stop_tokens;
  size_t n_stop_tokens;
  struct lls_structured structured; /* the format of the answer */
  struct lls_logit_bias *bias;
  size_t n_bias;
  uint32_t *allowed;  /* a bit for each token of the vocabulary, or NULL: all */
  int32_t *bad_words; /* (n_bad_words) as lls_submission has them */
  size_t n_bad_words;
  int32_t *expected; /* (n_expected) the answer as the client expects it */
  size_t n_expected;
  /* (n_logprob_ids) tokens that are the alternatives in place of the likeliest ones */
  int32_t logprob_ids[LLS_MAX_LOGPROBS];
  uint32_t n_logprob_ids;
  int64_t logprobs; /* alternatives for each token; LLS_UNSET = no logprobs */
  bool chat_logprobs;
  int64_t top_logprobs;
  bool echo;               /* the prompt's text comes first */
  bool chat_echo;          /* repeat the last message, if it is the assistant's */
  int64_t prompt_logprobs; /* alternatives; LLS_UNSET = no prompt logprobs */
  int64_t thinking_budget; /* most tokens of reasoning; or LLS_ENDLESS */
  bool include_reasoning;  /* false: omit the reasoning from the answer */
  bool return_token_ids;
  bool timings;       /* the answer has llama.cpp's timings */
  bool progress;      /* a stream begins with the progress of the prompt */
  bool tokens_as_ids; /* logprobs name tokens by their ids */
  bool add_special_tokens, skip_special_tokens;
  bool add_generation_prompt, continue_final_message;
  int64_t truncate_prompt_tokens; /* keep this many tokens; LLS_UNSET: all; LLS_ENDLESS:
                                     as many as leave room for the answer */
  bool cut_end; /* of a prompt too long for that its end is dropped, not its beginning */
  /* /tokenize: return_token_strs is vLLM's, the other two are llama.cpp's */
  bool return_token_strs, add_special, with_pieces;
  uint32_t pooling;       /* enum lls_pooling: a vector instead of tokens */
  bool base64;            /* write the vector in base64 */
  bool normalize;         /* vectors have the length 1 */
  bool use_activation;    /* classes have probabilities, not the scores of the head */
  int64_t dimensions;     /* elements to keep of the vector; or LLS_UNSET */
  int64_t top_n;          /* documents to return of a ranking; or LLS_ENDLESS */
  bool return_documents;  /* repeat the documents' texts in a ranking */
  uint32_t request_class; /* enum lls_class */
  int64_t priority;       /* lower first */
  struct lls_slo slo;
  char tenant[LLS_TENANT_BYTES]; /* the tenant that fairness counts, or "" */
  /* (cache_salt_bytes) as in vLLM: requests with equal salts share cached prefixes */
  char cache_salt[257];
  size_t cache_salt_bytes;
  /* The client's name for the session of the request, or "". The next two are hints: its
   * next request comes that long after the answer, and the prompt should be kept for that
   * long; 0: not said. */
  char session[257];
  int64_t away_ns, keep_ns;
  struct lls_api_tools tools;
  struct lls_chat_template *chat_template; /* the request's own, or NULL */
  struct lls_adapter *adapter; /* that `model` or `lora` names, a reference; or NULL */
  float adapter_scale;         /* with chooses_adapter; else that of the list */
  bool chooses_adapter;        /* `lora` is set: adapter NULL is the model alone */
  bool all_content;            /* the grammar leaves no place for reasoning or calls */
};

struct lls_scaled_adapter {
  struct lls_adapter *adapter; /* a reference, or NULL */
  float scale;
};

struct lls_tokenizer;
struct lls_chat_template;
struct lls_grammar;

/* The limits and defaults that parameters are read with. */
struct lls_params_context {
  enum lls_endpoint endpoint;
  const char *model_name;
  struct lls_lora_set *adapters; /* that 'model' may name; NULL: none */
  const struct lls_tokenizer *tokenizer;
  uint32_t vocab;
  const struct lls_sampling *defaults;
  const struct lls_api_limits *limits;
  const struct lls_pooling_config *pooling;
  uint32_t vector_columns;
  bool few_samplers, drafts;               /* as in lls_api_config */
  bool is_encoder, headless, scores_pairs; /* the same as in lls_api_encoder */
  bool takes_instruction;                  /* its form is set */
  bool classifies;                         /* its labels are set */
  const char *template_source;             /* the chat template's, or NULL */
  /* called for each ignored parameter; may be NULL */
  void (*on_unknown)(void *context, const char *name);
  void *on_unknown_context;
};

/* Returns 0; or -1 with *error set and *out freed. */
int lls_api_params_read(const json_t *body, const struct lls_params_context *context,
                        struct lls_api_params *out, struct lls_api_error *error);
/* [any] Describe the parameters of an endpoint, new references: the properties of a JSON
 * Schema, and the names of those that are an error. */
json_t *lls_params_schema(enum lls_endpoint endpoint);
json_t *lls_params_refused(enum lls_endpoint endpoint);
/* [any] Returns the schema of JSON types, '|' between them, and null; "" is any. */
json_t *lls_schema_of_types(const char *types);

void lls_api_params_free(struct lls_api_params *params);

/* Returns the most tokens an answer may have if the context has room for `room` more;
 * LLS_ENDLESS only if room is. */
int64_t lls_api_params_answer(const struct lls_api_params *params, int64_t room);

/* Returns true if the request needs logprobs of the prompt; *logprobs is then the
 * number of alternatives. */
bool lls_api_params_scores(const struct lls_api_params *params, uint32_t *logprobs);

/* Sets the tenant from a client's text: cut at a character boundary, without control
 * characters. */
void lls_api_params_set_tenant(struct lls_api_params *params, const char *name);

/* Sets the session; a hash takes the place of a name that is long or cannot be shown. */
void lls_api_params_set_session(struct lls_api_params *params, const char *name,
                                size_t bytes);

/* [any] Checks that the grammar (NULL: none) can be met with the tokens that the
 * parameters allow. Returns 0, or -1 with *error set. */
int lls_api_params_meet(const struct lls_api_params *params, struct lls_grammar *grammar,
                        struct lls_api_error *error);

/* [any] Returns OpenAI's name of the tier in which a request of this class is served. */
const char *lls_service_tier(uint32_t request_class);

/* Returns the sampling parameters of one choice; the caller sets the seed. */
struct lls_sampling lls_api_params_sampling(const struct lls_api_params *params);

/* Returns DRY's parameters; its breakers stay the caller's. */
struct lls_dry lls_api_params_dry(const struct lls_api_params *params);

/* Names of the parameters passed to the chat template as variables; ends with NULL. */
extern const char *const lls_param_variables[];

/* Writes the JSON of a value for an error message, cut to `size` bytes; returns out. */
const char *lls_json_excerpt(const json_t *value, char *out, size_t size);

/* Reads an integer, also one written as 3.0. Returns false if value is not an integer
 * or does not fit. */
bool lls_json_integer(const json_t *value, int64_t *out);

/* Reads `value`, item `index` of an array of token ids. Returns 0, or -1 with *error
 * set. */
int lls_json_token_id(const json_t *value, size_t index, const char *param,
                      uint32_t vocab, int32_t *out, struct lls_api_error *error);

/* Reads an array of token ids. Returns 0, or -1 with *error set. The caller frees
 * *ids. */
int lls_json_token_ids(const json_t *array, const char *param, uint32_t vocab,
                       int32_t **ids, size_t *count, struct lls_api_error *error);

#endif
