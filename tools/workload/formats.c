/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CSV formats. Our own ("csv") has prompt_tokens and output_tokens, and optionally
 *   arrival_s | arrival_ns   since the beginning
 *   max_new_tokens           the client's limit
 *   class                    realtime, best_effort or empty
 *   priority label
 *   tenant                   1.., or 0 or empty for none
 *   ttft_ms tbt_ms tpot_ms completion_ms   SLOs; empty: none
 *   prefix prefix_tokens     rows with one prefix number share this many first tokens
 *   session wait_ms tool kept_tokens   turns of one conversation, see sessions.c
 *   draft_acceptance         of a guess, in the simulator
 */
#include "tools/workload/formats.h"

#include <string.h>

#define S  1e9
#define MS 1e6

static const struct lls_column azure_columns[] = {
    {"TIMESTAMP", LLS_FIELD_DATE, 1, true},
    {"ContextTokens", LLS_FIELD_PROMPT, 1, true},
    {"GeneratedTokens", LLS_FIELD_OUTPUT, 1, true},
    {NULL, 0, 0, false},
};
static const struct lls_column burstgpt_columns[] = {
    {"Timestamp", LLS_FIELD_ARRIVAL, S, true},
    {"Request tokens", LLS_FIELD_PROMPT, 1, true},
    {"Response tokens", LLS_FIELD_OUTPUT, 1, true},
    {NULL, 0, 0, false},
};
static const struct lls_column servegen_columns[] = {
    {"arrival_s", LLS_FIELD_ARRIVAL, S, true},
    {"client_id", LLS_FIELD_TENANT, 1, true},
    {"input_tokens", LLS_FIELD_PROMPT, 1, true},
    {"output_tokens", LLS_FIELD_OUTPUT, 1, true},
    {NULL, 0, 0, false},
};
static const struct lls_column distserve_columns[] = {
    {"prompt_len", LLS_FIELD_PROMPT, 1, true},
    {"output_len", LLS_FIELD_OUTPUT, 1, true},
    {"issue_time", LLS_FIELD_ARRIVAL, S, true},
    {NULL, 0, 0, false},
};
static const struct lls_column lengths_columns[] = {
    {"num_prefill_tokens", LLS_FIELD_PROMPT, 1, true},
    {"num_decode_tokens", LLS_FIELD_OUTPUT, 1, true},
    {NULL, 0, 0, false},
};
/* The export of TraceLab (artifacts/trace_facts/csv_export). */
static const struct lls_column tracelab_columns[] = {
    {"id", LLS_FIELD_SESSION, 1, true},
    {"input_len", LLS_FIELD_PROMPT, 1, true},
    {"output_len", LLS_FIELD_OUTPUT, 1, true},
    {"arrival_time", LLS_FIELD_ARRIVAL, MS, true},
    {"round_idx", LLS_FIELD_TURN, 1, true},
    {"tool_wait_after_ms", LLS_FIELD_WAIT, MS, true},
    {"prefix_len", LLS_FIELD_KEPT, 1, true},
    {NULL, 0, 0, false},
};
static const struct lls_column own_columns[] = {
    {"prompt_tokens", LLS_FIELD_PROMPT, 1, true},
    {"output_tokens", LLS_FIELD_OUTPUT, 1, true},
    {"arrival_s", LLS_FIELD_ARRIVAL, S, false},
    {"arrival_ns", LLS_FIELD_ARRIVAL, 1, false},
    {"max_new_tokens", LLS_FIELD_MAX_NEW, 1, false},
    {"class", LLS_FIELD_CLASS, 1, false},
    {"priority", LLS_FIELD_PRIORITY, 1, false},
    {"tenant", LLS_FIELD_TENANT, 1, false},
    {"label", LLS_FIELD_LABEL, 1, false},
    {"ttft_ms", LLS_FIELD_TTFT, MS, false},
    {"tbt_ms", LLS_FIELD_TBT, MS, false},
    {"tpot_ms", LLS_FIELD_TPOT, MS, false},
    {"completion_ms", LLS_FIELD_COMPLETION, MS, false},
    {"prefix", LLS_FIELD_PREFIX, 1, false},
    {"prefix_tokens", LLS_FIELD_PREFIX_TOKENS, 1, false},
    {"session", LLS_FIELD_SESSION, 1, false},
    {"wait_ms", LLS_FIELD_WAIT, MS, false},
    {"tool", LLS_FIELD_TOOL, 1, false},
    {"kept_tokens", LLS_FIELD_KEPT, 1, false},
    {"draft_acceptance", LLS_FIELD_ACCEPTANCE, LLS_MILLIONTHS, false},
    {NULL, 0, 0, false},
};

static const struct lls_format formats[] = {
    {.name = "azure", .columns = azure_columns},
    {.name = "burstgpt", .columns = burstgpt_columns, .drops_empty = true},
    {.name = "servegen", .columns = servegen_columns},
    {.name = "distserve", .columns = distserve_columns},
    {.name = "lengths", .columns = lengths_columns},
    {.name = "tracelab", .columns = tracelab_columns, .adds_prompt = true},
    {.name = "csv", .columns = own_columns, .strict = true},
};

const char *lls_format_missing(const struct lls_format *format,
                               const struct lls_table *table)
{
  for (const struct lls_column *c = format->columns; c->name != NULL; c++)
    if (c->required && lls_table_find(table, c->name) < 0)
      return c->name;
  return NULL;
}

const struct lls_format *lls_format_find(const struct lls_table *table, const char *name)
{
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (strcmp(name, "auto") == 0 ? lls_format_missing(&formats[i], table) == NULL
                                  : strcmp(name, formats[i].name) == 0)
      return &formats[i];
  return NULL;
}
