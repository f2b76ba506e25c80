/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a JSON list of prompts with answers; the tokeniser gives their lengths.
 *
 *   sharegpt   {"conversations": [{"value": prompt}, {"value": answer}, ...]}: the first
 *              two turns, as vLLM takes them; shorter conversations are left out
 *   lmbench    {"input", "output_length"}: later entries continue the conversation of
 *              earlier ones; --disable-shuffle keeps their order
 *   alpaca     {"instruction", "input", "output"}: the prompt is the instruction, an
 *              empty line, the input
 */
#include <errno.h>
#include <string.h>

#include "core/base/json_parse.h"
#include "core/base/text.h"
#include "tools/workload/reader.h"

struct pair {
  const json_t *prompt, *answer;
  const json_t *more;     /* appended to the prompt, or NULL */
  uint32_t answer_tokens; /* length, if there is no answer */
};

static int bad_entry(const char *path, size_t index, const char *what,
                     struct lls_error *err)
{
  return lls_fail(err, -EINVAL, "%s: entry %zu: %s", path, index, what);
}

/* Returns 1: a pair; 0: an entry to leave out; -EINVAL: neither. */
static int sharegpt_pair(const json_t *entry, struct pair *out)
{
  const json_t *turns = json_object_get(entry, "conversations");
  if (!json_is_array(turns))
    return -EINVAL;
  if (json_array_size(turns) < 2)
    return 0;
  out->prompt = json_object_get(json_array_get(turns, 0), "value");
  out->answer = json_object_get(json_array_get(turns, 1), "value");
  return json_is_string(out->prompt) && json_is_string(out->answer) ? 1 : -EINVAL;
}

static int alpaca_pair(const json_t *entry, struct pair *out)
{
  out->prompt = json_object_get(entry, "instruction");
  out->more = json_object_get(entry, "input");
  out->answer = json_object_get(entry, "output");
  return json_is_string(out->prompt) && json_is_string(out->answer) ? 1 : -EINVAL;
}

static int lmbench_pair(const json_t *entry, struct pair *out)
{
  json_int_t tokens = json_integer_value(json_object_get(entry, "output_length"));
  out->prompt = json_object_get(entry, "input");
  out->answer_tokens = tokens > 0 && tokens <= LLS_LENGTH_MAX ? (uint32_t)tokens : 0;
  return json_is_string(out->prompt) && out->answer_tokens > 0 ? 1 : -EINVAL;
}

static const struct {
  const char *name, *key; /* key: a key of the first entry that identifies the format */
  int (*read)(const json_t *, struct pair *);
  const char *expected;
} formats[] = {
    {"sharegpt", "conversations", sharegpt_pair,
     "expected \"conversations\" with texts in \"value\""},
    {"lmbench", "output_length", lmbench_pair,
     "expected a text in \"input\" and a number from 1 to 16777216 in \"output_length\""},
    {"alpaca", "instruction", alpaca_pair,
     "expected texts in \"instruction\" and \"output\""},
};

#define N_FORMATS (sizeof formats / sizeof *formats)

/* Finds the format; the last one is the default for any other list. */
static size_t find_format(const char *name, const json_t *first)
{
  size_t i = 0;
  while (i + 1 < N_FORMATS &&
         (strcmp(name, "auto") == 0 ? json_object_get(first, formats[i].key) == NULL
                                    : strcmp(name, formats[i].name) != 0))
    i++;
  return i;
}

static int set_prompt(struct lls_rows *rows, struct lls_item *row,
                      const struct pair *pair, struct lls_error *err)
{
  struct lls_text text = {0};
  lls_text_append(&text, json_string_value(pair->prompt),
                  json_string_length(pair->prompt));
  if (json_is_string(pair->more) && json_string_length(pair->more) > 0) {
    lls_text_puts(&text, "\n\n");
    lls_text_append(&text, json_string_value(pair->more), json_string_length(pair->more));
  }
  int rc = text.failed ? lls_fail(err, -ENOMEM, "no memory for a prompt")
                       : lls_row_text(rows, row, text.data, text.length, err);
  lls_text_free(&text);
  return rc;
}

/* Adds a request; a pair with an empty prompt or answer is left out. */
static int add_pair(struct lls_rows *rows, const struct pair *pair, struct lls_error *err)
{
  struct lls_item *row = lls_rows_add(rows);
  if (row == NULL)
    return lls_fail(err, -ENOMEM, "no memory for more than %u rows", rows->n);
  int rc = set_prompt(rows, row, pair, err);
  row->output_tokens = pair->answer_tokens;
  if (rc == 0 && pair->answer != NULL)
    rc = lls_text_tokens(rows, json_string_value(pair->answer),
                         json_string_length(pair->answer), &row->output_tokens, err);
  if (rc == 0 && (row->prompt_tokens == 0 || row->output_tokens == 0))
    rows->n--;
  return rc;
}

static int read_entries(const json_t *list, size_t format, const char *path,
                        struct lls_rows *rows, struct lls_error *err)
{
  size_t index;
  const json_t *entry;
  json_array_foreach(list, index, entry)
  {
    struct pair pair = {0};
    int rc = formats[format].read(entry, &pair);
    if (rc < 0)
      return bad_entry(path, index, formats[format].expected, err);
    if (rc == 1 && (rc = add_pair(rows, &pair, err)) < 0)
      return lls_fail_at(err, rc, "%s: entry %zu", path, index);
  }
  return 0;
}

int lls_read_chats(const char *format, const char *path, struct lls_rows *rows,
                   struct lls_error *err)
{
  json_error_t why;
  json_t *list = lls_json_parse_file(path, JSON_ALLOW_NUL, &why);
  int rc;
  if (list == NULL && why.line < 0)
    return lls_fail(err, -ENOENT, "%s: cannot be read", path);
  if (list == NULL)
    return lls_fail(err, -EINVAL, "%s:%d: not valid JSON: %s", path, why.line, why.text);
  if (!json_is_array(list))
    rc = lls_fail(err, -EINVAL, "%s: expected one JSON list", path);
  else
    rc =
        read_entries(list, find_format(format, json_array_get(list, 0)), path, rows, err);
  json_decref(list);
  return rc;
}
