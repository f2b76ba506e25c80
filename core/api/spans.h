/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A finished request as spans of OpenTelemetry: "llm_request", vLLM's name, with the
 * attributes of the conventions for generative AI (gen_ai.*) and ours (llmserve.*); below
 * it one span for each of its phases (life.h): queue, prefill, decode, paused, swapped,
 * moving. A request of several choices has a span for each choice, in one trace.
 */
#ifndef LLS_API_SPANS_H
#define LLS_API_SPANS_H

#include "core/api/generation.h"

/* [main] Gives the spans to the exporter, if there is one and the client wants its trace
 * recorded. first_s: time to the first token, or -1. */
void lls_spans_export(const struct lls_choice *, const struct lls_event *,
                      const char *outcome, double first_s);

#endif
