/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths of the front end. A row is all that the others have to know of an endpoint:
 * it declares the handler, and it is the handler's line in the table of routes.c. Who may
 * ask goes by the path (access.c).
 */
#ifndef LLS_API_ROUTES_H
#define LLS_API_ROUTES_H

#include "core/http/exchange.h"

#define LLS_ROUTES(ROUTE)                                                                \
  ROUTE("POST", "/v1/completions", lls_handle_completions)                               \
  ROUTE("POST", "/v1/chat/completions", lls_handle_chat)                                 \
  ROUTE("GET", "/v1/models", lls_handle_models)                                          \
  ROUTE("GET", "/v1/models/", lls_handle_models)                                         \
  ROUTE("GET", "/v1/models/*", lls_handle_model)                                         \
  ROUTE("POST", "/v1/responses", lls_handle_responses)                                   \
  ROUTE("POST", "/v1/embeddings", lls_handle_embeddings)                                 \
  ROUTE("POST", "/v1/rerank", lls_handle_rerank)                                         \
  ROUTE("POST", "/v1/score", lls_handle_score)                                           \
  ROUTE("POST", "/tokenize", lls_handle_tokenize)                                        \
  ROUTE("POST", "/detokenize", lls_handle_detokenize)                                    \
  ROUTE("GET", "/tokenizer_info", lls_handle_tokenizer_info)                             \
  /* without /v1, as llama.cpp has them: clients whose base URL lacks it */              \
  ROUTE("POST", "/completions", lls_handle_completions)                                  \
  ROUTE("POST", "/chat/completions", lls_handle_chat)                                    \
  ROUTE("POST", "/responses", lls_handle_responses)                                      \
  ROUTE("POST", "/embeddings", lls_handle_embeddings)                                    \
  ROUTE("POST", "/rerank", lls_handle_rerank)                                            \
  ROUTE("POST", "/v2/rerank", lls_handle_rerank)                                         \
  ROUTE("POST", "/score", lls_handle_score)                                              \
  ROUTE("GET", "/models", lls_handle_models)                                             \
  ROUTE("GET", "/models/*", lls_handle_model)                                            \
  ROUTE("POST", "/v1/files", lls_handle_file_create)                                     \
  ROUTE("GET", "/v1/files", lls_handle_files)                                            \
  ROUTE("GET", "/v1/files/*", lls_handle_file)                                           \
  ROUTE("DELETE", "/v1/files/*", lls_handle_file_delete)                                 \
  ROUTE("POST", "/v1/batches", lls_handle_batch_create)                                  \
  ROUTE("GET", "/v1/batches", lls_handle_batches)                                        \
  ROUTE("GET", "/v1/batches/*", lls_handle_batch)                                        \
  ROUTE("POST", "/v1/batches/*", lls_handle_batch_cancel)                                \
  ROUTE("GET", "/health", lls_handle_health)                                             \
  ROUTE("GET", "/live", lls_handle_live)                                                 \
  ROUTE("GET", "/ready", lls_handle_ready)                                               \
  ROUTE("GET", "/metrics", lls_handle_metrics)                                           \
  ROUTE("GET", "/version", lls_handle_version)                                           \
  ROUTE("GET", "/load", lls_handle_load)                                                 \
  ROUTE("GET", "/admin/status", lls_handle_admin_status)                                 \
  ROUTE("GET", "/admin/queues", lls_handle_admin_queues)                                 \
  ROUTE("GET", "/admin/config", lls_handle_admin_config)                                 \
  ROUTE("POST", "/admin/reload", lls_handle_admin_reload)                                \
  ROUTE("POST", "/admin/drain", lls_handle_admin_drain)

/* [main] Answers the exchange, now or later; context is the struct lls_api. */
#define LLS_ROUTE_HANDLER(METHOD, PATH, HANDLER)                                         \
  void HANDLER(void *context, struct lls_http_exchange *exchange);
LLS_ROUTES(LLS_ROUTE_HANDLER)
#undef LLS_ROUTE_HANDLER

#endif
