/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths of the front end. A row of LLS_ROUTES both declares the handler of an
 * endpoint, or its dialect if requests generate something (dialect.h), and adds it to the
 * table of front/routes.c. access.c decides by the path which clients may use an
 * endpoint.
 */
#ifndef LLS_API_ROUTES_H
#define LLS_API_ROUTES_H

#include <stdbool.h>
#include <string.h>

#include "core/http/exchange.h"

struct lls_dialect;

/* A route with and without /v1, for clients whose base URL lacks it. llama.cpp and vLLM
 * serve most of these paths twice, too. */
#define LLS_ROUTE_V1(ROUTE, METHOD, PATH, HANDLER)                                       \
  ROUTE(METHOD, "/v1" PATH, HANDLER)                                                     \
  ROUTE(METHOD, PATH, HANDLER)

/* Like LLS_ROUTE_V1, for a dialect. */
#define LLS_DIALECT_V1(DIALECT, PATH, NAME)                                              \
  DIALECT("/v1" PATH, NAME)                                                              \
  DIALECT(PATH, NAME)

/* SHAPED: an endpoint that generates nothing and answers errors in a dialect's shape. */
#define LLS_ROUTES(ROUTE, DIALECT, SHAPED)                                               \
  LLS_DIALECT_V1(DIALECT, "/completions", lls_completions)                               \
  LLS_DIALECT_V1(DIALECT, "/chat/completions", lls_chat_completions)                     \
  LLS_DIALECT_V1(DIALECT, "/chat/completions/input_tokens", lls_chat_counts)             \
  LLS_ROUTE_V1(ROUTE, "GET", "/models", lls_handle_models)                               \
  LLS_ROUTE_V1(ROUTE, "GET", "/models/", lls_handle_models)                              \
  LLS_ROUTE_V1(ROUTE, "GET", "/models/*", lls_handle_model)                              \
  LLS_ROUTE_V1(ROUTE, "POST", "/models/load", lls_handle_model_load)                     \
  LLS_ROUTE_V1(ROUTE, "POST", "/models/unload", lls_handle_model_unload)                 \
  ROUTE("POST", "/v1/load_lora_adapter", lls_handle_load_adapter)                        \
  ROUTE("POST", "/v1/unload_lora_adapter", lls_handle_unload_adapter)                    \
  LLS_DIALECT_V1(DIALECT, "/responses", lls_responses)                                   \
  LLS_DIALECT_V1(DIALECT, "/responses/input_tokens", lls_response_counts)                \
  LLS_DIALECT_V1(DIALECT, "/responses/compact", lls_response_compact)                    \
  LLS_ROUTE_V1(ROUTE, "GET", "/responses/*", lls_handle_response)                        \
  LLS_ROUTE_V1(ROUTE, "DELETE", "/responses/*", lls_handle_response_delete)              \
  LLS_ROUTE_V1(ROUTE, "POST", "/responses/*", lls_handle_response_cancel)                \
  LLS_ROUTE_V1(ROUTE, "POST", "/conversations", lls_handle_conversation_create)          \
  LLS_ROUTE_V1(ROUTE, "GET", "/conversations/*", lls_handle_conversation)                \
  LLS_ROUTE_V1(ROUTE, "POST", "/conversations/*", lls_handle_conversation_post)          \
  LLS_ROUTE_V1(ROUTE, "DELETE", "/conversations/*", lls_handle_conversation_delete)      \
  LLS_DIALECT_V1(DIALECT, "/messages", lls_messages)                                     \
  SHAPED("/v1/messages/count_tokens", lls_handle_count_tokens, lls_messages)             \
  SHAPED("/messages/count_tokens", lls_handle_count_tokens, lls_messages)                \
  LLS_DIALECT_V1(DIALECT, "/embeddings", lls_embeddings)                                 \
  LLS_DIALECT_V1(DIALECT, "/rerank", lls_rerank)                                         \
  LLS_DIALECT_V1(DIALECT, "/reranking", lls_rerank)                                      \
  DIALECT("/v2/rerank", lls_rerank)                                                      \
  LLS_DIALECT_V1(DIALECT, "/score", lls_score)                                           \
  DIALECT("/openai/deployments/*/chat/completions", lls_chat_completions)                \
  DIALECT("/openai/deployments/*/completions", lls_completions)                          \
  DIALECT("/openai/deployments/*/embeddings", lls_embeddings)                            \
  DIALECT("/openai/v1/chat/completions", lls_chat_completions)                           \
  DIALECT("/openai/v1/completions", lls_completions)                                     \
  DIALECT("/openai/v1/embeddings", lls_embeddings)                                       \
  DIALECT("/openai/v1/responses", lls_responses)                                         \
  DIALECT("/openai/responses", lls_responses)                                            \
  ROUTE("GET", "/openai/v1/models", lls_handle_models)                                   \
  DIALECT("/pooling", lls_pooling)                                                       \
  DIALECT("/classify", lls_classify)                                                     \
  DIALECT("/inference/v1/generate", lls_token_generation)                                \
  DIALECT("/invocations", lls_invocations)                                               \
  ROUTE("GET", "/ping", lls_handle_health)                                               \
  ROUTE("POST", "/ping", lls_handle_health)                                              \
  DIALECT("/generate", lls_tgi_generate)                                                 \
  DIALECT("/generate_stream", lls_tgi_stream)                                            \
  DIALECT("/", lls_tgi_root)                                                             \
  ROUTE("GET", "/info", lls_handle_tgi_info)                                             \
  DIALECT("/api/chat", lls_ollama_chat)                                                  \
  DIALECT("/api/generate", lls_ollama_generate)                                          \
  DIALECT("/api/embed", lls_ollama_embed)                                                \
  DIALECT("/api/embeddings", lls_ollama_embedding)                                       \
  ROUTE("GET", "/api/tags", lls_handle_ollama_tags)                                      \
  ROUTE("POST", "/api/show", lls_handle_ollama_show)                                     \
  ROUTE("GET", "/api/ps", lls_handle_ollama_ps)                                          \
  ROUTE("GET", "/api/version", lls_handle_ollama_version)                                \
  DIALECT("/completion", lls_llamacpp_completion)                                        \
  DIALECT("/infill", lls_llamacpp_infill)                                                \
  ROUTE("GET", "/props", lls_handle_props)                                               \
  ROUTE("GET", "/slots", lls_handle_slots)                                               \
  ROUTE("GET", "/lora-adapters", lls_handle_lora_adapters)                               \
  ROUTE("POST", "/lora-adapters", lls_handle_scale_adapters)                             \
  ROUTE("POST", "/apply-template", lls_handle_apply_template)                            \
  ROUTE("POST", "/tokenize", lls_handle_tokenize)                                        \
  ROUTE("POST", "/detokenize", lls_handle_detokenize)                                    \
  ROUTE("GET", "/tokenizer_info", lls_handle_tokenizer_info)                             \
  LLS_ROUTE_V1(ROUTE, "POST", "/files", lls_handle_file_create)                          \
  LLS_ROUTE_V1(ROUTE, "GET", "/files", lls_handle_files)                                 \
  LLS_ROUTE_V1(ROUTE, "GET", "/files/*", lls_handle_file)                                \
  LLS_ROUTE_V1(ROUTE, "DELETE", "/files/*", lls_handle_file_delete)                      \
  LLS_ROUTE_V1(ROUTE, "POST", "/batches", lls_handle_batch_create)                       \
  LLS_ROUTE_V1(ROUTE, "GET", "/batches", lls_handle_batches)                             \
  LLS_ROUTE_V1(ROUTE, "GET", "/batches/*", lls_handle_batch)                             \
  LLS_ROUTE_V1(ROUTE, "POST", "/batches/*", lls_handle_batch_cancel)                     \
  LLS_ROUTE_V1(ROUTE, "GET", "/health", lls_handle_health)                               \
  ROUTE("GET", "/live", lls_handle_live)                                                 \
  ROUTE("GET", "/ready", lls_handle_ready)                                               \
  ROUTE("GET", "/metrics", lls_handle_metrics)                                           \
  ROUTE("GET", "/version", lls_handle_version)                                           \
  ROUTE("GET", "/load", lls_handle_load)                                                 \
  ROUTE("GET", "/", lls_handle_root)                                                     \
  ROUTE("GET", "/openapi.json", lls_handle_openapi)                                      \
  ROUTE("GET", "/docs", lls_handle_docs)                                                 \
  ROUTE("GET", "/console", lls_handle_console)                                           \
  ROUTE("GET", "/console/*", lls_handle_console_file)                                    \
  ROUTE("GET", "/admin/status", lls_handle_admin_status)                                 \
  ROUTE("GET", "/admin/queues", lls_handle_admin_queues)                                 \
  ROUTE("GET", "/admin/sessions", lls_handle_admin_sessions)                             \
  ROUTE("GET", "/admin/events", lls_handle_admin_events)                                 \
  ROUTE("GET", "/admin/kv_events", lls_handle_admin_kv_events)                           \
  ROUTE("GET", "/admin/config", lls_handle_admin_config)                                 \
  ROUTE("GET", "/admin/history", lls_handle_admin_history)                               \
  ROUTE("GET", "/admin/policies", lls_handle_admin_policies)                             \
  ROUTE("GET", "/admin/whatif", lls_handle_admin_whatif)                                 \
  ROUTE("POST", "/admin/whatif", lls_handle_admin_whatif_ask)                            \
  ROUTE("DELETE", "/admin/whatif", lls_handle_admin_whatif_give_up)                      \
  ROUTE("POST", "/admin/reload", lls_handle_admin_reload)                                \
  ROUTE("POST", "/admin/drain", lls_handle_admin_drain)

/* [main] Answers the exchange, now or later; context is the struct lls_api. */
#define LLS_ROUTE_HANDLER(METHOD, PATH, HANDLER)                                         \
  void HANDLER(void *context, struct lls_http_exchange *exchange);
#define LLS_ROUTE_DIALECT(PATH, NAME)         extern const struct lls_dialect NAME;
#define LLS_ROUTE_SHAPED(PATH, HANDLER, NAME) LLS_ROUTE_HANDLER("POST", PATH, HANDLER)
LLS_ROUTES(LLS_ROUTE_HANDLER, LLS_ROUTE_DIALECT, LLS_ROUTE_SHAPED)
#undef LLS_ROUTE_SHAPED
#undef LLS_ROUTE_HANDLER
#undef LLS_ROUTE_DIALECT

/* [any] Returns true if the path is `route`, with or without /v1. */
static inline bool lls_route_is(const char *path, const char *route)
{
  static const char v1[] = "/v1";
  size_t length = sizeof v1 - 1;
  return strcmp(strncmp(path, v1, length) == 0 ? path + length : path, route) == 0;
}

#endif
