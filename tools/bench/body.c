/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the POST request of one item. Prompts are sent as text if the workload has
 * text; else as token ids to completions, or as made-up words of about a token each to
 * chats. A hash of the prompt's first bytes goes along, for proxies that route by it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/prefix_hash.h"
#include "tools/bench/bench.h"
#include "tools/workload/random.h"

/* ---- the prompt -------------------------------------------------------------------- */

static int put_ids(const struct lls_bench *b, const struct lls_workload *workload,
                   const struct lls_item *item, struct lls_prompt_prefix *prefix,
                   struct lls_text *out, struct lls_error *err)
{
  size_t begin = out->length + 1;
  int32_t *ids = calloc(item->prompt_tokens, sizeof *ids);
  if (ids == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a prompt");
  int rc = lls_item_fill(workload, item, b->id_low,
                         item->ids != NULL ? INT32_MAX : b->id_high, ids);
  for (uint32_t i = 0; rc == 0 && i < item->prompt_tokens; i++)
    lls_text_printf(out, "%s%d", i == 0 ? "[" : ",", ids[i]);
  if (!out->failed && out->length > begin)
    lls_prefix_add(prefix, out->data + begin, out->length - begin);
  lls_text_puts(out, "]");
  free(ids);
  return rc < 0 ? lls_fail(err, rc, "a prompt has ids out of range") : 0;
}

static void put_string(const char *text, struct lls_prompt_prefix *prefix,
                       struct lls_text *out)
{
  lls_prefix_add(prefix, text, strlen(text));
  json_t *string = json_string(text);
  char *quoted = json_dumps(string, JSON_ENCODE_ANY);
  lls_text_puts(out, quoted != NULL ? quoted : "\"\"");
  free(quoted);
  json_decref(string);
}

static void put_words(const struct lls_workload *workload, const struct lls_item *item,
                      struct lls_prompt_prefix *prefix, struct lls_text *out)
{
  static const char *const words[] = {"time", "day",  "man",  "house", "tree",  "water",
                                      "city", "road", "bird", "book",  "table", "river",
                                      "hand", "song", "game", "story"};
  struct lls_random random =
      lls_random_at(workload->seed, LLS_STREAM_TOKENS, item->index);
  lls_text_puts(out, "\"");
  size_t begin = out->length;
  for (uint32_t i = 0; i < item->prompt_tokens; i++)
    lls_text_printf(out, "%s%s", i == 0 ? "" : " ",
                    words[lls_random_below(&random, sizeof words / sizeof *words)]);
  if (!out->failed)
    lls_prefix_add(prefix, out->data + begin, out->length - begin);
  lls_text_puts(out, "\"");
}

static int put_prompt(const struct lls_bench *b, const struct lls_workload *workload,
                      const struct lls_item *item, struct lls_prompt_prefix *prefix,
                      struct lls_text *out, struct lls_error *err)
{
  static const char role[] = "user\n";
  if (!b->chat) {
    lls_text_puts(out, "{\"prompt\":");
    if (item->text == NULL)
      return put_ids(b, workload, item, prefix, out, err);
    put_string(item->text, prefix, out);
    return 0;
  }
  lls_text_puts(out, "{\"messages\":[{\"role\":\"user\",\"content\":");
  lls_prefix_add(prefix, role, sizeof role - 1);
  if (item->text != NULL)
    put_string(item->text, prefix, out);
  else
    put_words(workload, item, prefix, out);
  lls_prefix_add(prefix, "\n", 1);
  lls_text_puts(out, "}]");
  return 0;
}

/* ---- the rest ---------------------------------------------------------------------- */

static void put_deadline(json_t *slo, const char *name, int64_t ns)
{
  if (ns != LLS_NEVER)
    json_object_set_new(slo, name, json_real((double)ns / 1e6));
}

/* Adds members that llmserve's schedulers use; other servers ignore them. */
static void put_wishes(json_t *body, const struct lls_item *item)
{
  json_t *slo = json_object();
  put_deadline(slo, "ttft_ms", item->slo.ttft_ns);
  put_deadline(slo, "tbt_ms", item->slo.tbt_ns);
  put_deadline(slo, "tpot_ms", item->slo.tpot_ns);
  put_deadline(slo, "completion_ms", item->slo.completion_ns);
  if (json_object_size(slo) > 0)
    json_object_set(body, "slo", slo);
  json_decref(slo);
  if (item->request_class != LLS_CLASS_NONE)
    json_object_set_new(body, "class",
                        json_string(item->request_class == LLS_CLASS_REALTIME
                                        ? "realtime"
                                        : "best_effort"));
  if (item->priority != 0)
    json_object_set_new(body, "priority", json_integer(item->priority));
  char tenant[LLS_ITEM_TENANT_BYTES];
  if (item->tenant != 0)
    json_object_set_new(body, "user", json_string(lls_item_tenant(item->tenant, tenant)));
}

static char *other_members(const struct lls_bench *b, const struct lls_item *item)
{
  bool exact = b->options->max_tokens == LLS_MAX_TOKENS_EXACT;
  json_t *body = json_pack("{s:s, s:i, s:b, s:{s:b}}", "model", b->model,
                           b->chat ? "max_completion_tokens" : "max_tokens",
                           (int)(exact ? item->output_tokens : item->max_new_tokens),
                           "stream", 1, "stream_options", "include_usage", 1);
  if (b->options->continuous_usage)
    json_object_set_new(json_object_get(body, "stream_options"), "continuous_usage_stats",
                        json_true());
  if (b->options->send_slo)
    put_wishes(body, item);
  json_object_update(body, b->sampling);
  char *text = json_dumps(body, JSON_COMPACT);
  json_decref(body);
  return text;
}

static void put_prefix_hash(const struct lls_prompt_prefix *prefix, struct lls_text *out)
{
  char hex[LLS_PREFIX_HEX];
  lls_prefix_hash(prefix, hex);
  lls_text_printf(out, LLS_PREFIX_HEADER ": %s\r\n", hex);
}

int lls_bench_request(const struct lls_bench *b, const struct lls_workload *workload,
                      const struct lls_item *item, struct lls_text *out,
                      struct lls_error *err)
{
  struct lls_text body = {0};
  struct lls_prompt_prefix prefix = {0};
  char *others = other_members(b, item);
  int rc = others == NULL ? lls_fail(err, -ENOMEM, "no memory for a request")
                          : put_prompt(b, workload, item, &prefix, &body, err);
  if (rc == 0) {
    lls_text_puts(&body, ",");
    lls_text_puts(&body, others + 1);
    lls_text_printf(out,
                    "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
                    "Accept: text/event-stream\r\nx-request-id: %s%u\r\n%s",
                    b->path, b->host, b->options->request_id_prefix, item->index,
                    b->headers);
    if (b->options->send_prefix_hash)
      put_prefix_hash(&prefix, out);
    if (item->session != NULL)
      lls_text_printf(out, "x-session-id: %s\r\n", item->session);
    lls_text_printf(out, "Content-Length: %zu\r\n\r\n", body.length);
    lls_text_append(out, body.data, body.length);
    if (body.failed || out->failed)
      rc = lls_fail(err, -ENOMEM, "no memory for a request");
  }
  lls_text_free(&body);
  free(others);
  return rc;
}
