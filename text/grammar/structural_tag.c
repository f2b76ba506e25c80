/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the formats of structural tags; see structural_tag.h. A format is built
 * together with the strings that end the surrounding tag, if they follow it directly:
 * free text continues up to the first of them.
 */
#include "text/grammar/structural_tag.h"

#include "text/grammar/grammar_marks.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/lark.h"
#include "text/grammar/regex.h"
#include "text/grammar/text_until.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 50   /* nested formats */
#define MOST    1024 /* strings that end one free text */

struct formats {
  struct lls_grammar_tree *tree;
  unsigned depth;
};

/* ends: the string, or array of strings, that must follow the format; NULL: none. */
static uint32_t build(struct formats *f, const json_t *format, const json_t *ends);

static uint32_t text(struct formats *f, const char *bytes, size_t n)
{
  return lls_grammar_marks(f->tree, bytes, n);
}

static uint32_t nothing(struct formats *f)
{
  return lls_grammar_literal(f->tree, "", 0);
}

static uint32_t row(struct formats *f, uint32_t first, uint32_t second)
{
  const uint32_t parts[] = {first, second};
  return lls_grammar_sequence(f->tree, parts, 2);
}

/* ---- members ---- */

static const json_t *strings(struct formats *f, const json_t *format, const char *key,
                             bool needed)
{
  const json_t *list = json_object_get(format, key);
  size_t i;
  json_t *string;
  if (list == NULL && !needed)
    return NULL;
  json_array_foreach((json_t *)list, i, string)
  {
    if (json_string_length(string) == 0)
      list = NULL;
  }
  if (!json_is_array(list) || json_array_size(list) > MOST)
    lls_grammar_fail(f->tree,
                     "the structural tag: '%s' must be an array of strings, at "
                     "most %d",
                     key, MOST);
  return list;
}

static const char *string(struct formats *f, const json_t *format, const char *key,
                          size_t *n)
{
  const json_t *value = json_object_get(format, key);
  *n = json_string_length(value);
  if (!json_is_string(value))
    lls_grammar_fail(f->tree, "the structural tag: '%s' must be a string%s", key,
                     json_is_object(value) ? "; tokens are not supported" : "");
  return json_is_string(value) ? json_string_value(value) : "";
}

/* Returns true if an unsupported member is present and not empty; the tree then fails,
 * naming it. */
static bool refuses(struct formats *f, const json_t *format, const char *key)
{
  const json_t *value = json_object_get(format, key);
  if (value == NULL || json_is_null(value) || json_is_false(value))
    return false;
  lls_grammar_fail(f->tree, "the structural tag: '%s' is not supported", key);
  return true;
}

/* A choice of the end strings; matches the empty text if there are none. */
static uint32_t any_end(struct formats *f, const json_t *ends)
{
  size_t n = json_is_array(ends) ? json_array_size(ends) : 0;
  if (json_is_string(ends))
    return text(f, json_string_value(ends), json_string_length(ends));
  uint32_t *parts = malloc((n + 1) * sizeof *parts);
  if (parts == NULL)
    return lls_grammar_fail(f->tree, "no memory for the structural tag");
  for (size_t i = 0; i < n; i++) {
    const json_t *end = json_array_get(ends, i);
    parts[i] = text(f, json_string_value(end), json_string_length(end));
  }
  uint32_t node = n == 0 ? nothing(f) : lls_grammar_choice(f->tree, parts, (uint32_t)n);
  free(parts);
  return node;
}

/* ---- free text ---- */

struct stops {
  struct lls_text_stop *list; /* (n) */
  uint32_t n, room;
};

static void put(struct formats *f, struct stops *s, const char *bytes, size_t n,
                uint32_t next)
{
  if (s->n == s->room) {
    uint32_t room = s->room == 0 ? 16 : 2 * s->room;
    struct lls_text_stop *grown = realloc(s->list, room * sizeof *grown);
    if (grown == NULL) {
      lls_grammar_fail(f->tree, "no memory for the structural tag");
      return;
    }
    s->list = grown;
    s->room = room;
  }
  if (n > 0)
    s->list[s->n++] = (struct lls_text_stop){bytes, n, next};
}

static void put_all(struct formats *f, struct stops *s, const json_t *list, uint32_t next)
{
  size_t i;
  json_t *one;
  if (json_is_string(list))
    put(f, s, json_string_value(list), json_string_length(list), next);
  json_array_foreach((json_t *)list, i, one)
  {
    put(f, s, json_string_value(one), json_string_length(one), next);
  }
}

/* Builds the free text with the collected stops, the excluded strings, and the ends. */
static uint32_t free_text(struct formats *f, uint32_t rule, struct stops *s,
                          const json_t *format, const json_t *ends)
{
  put_all(f, s, strings(f, format, "excludes", false), LLS_GRAMMAR_NONE);
  put_all(f, s, ends, nothing(f));
  lls_grammar_text_until(f->tree, rule, s->list, s->n, ends == NULL);
  free(s->list);
  return rule;
}

static uint32_t any_text(struct formats *f, const json_t *format, const json_t *ends)
{
  struct stops stops = {0};
  if (refuses(f, format, "max_tokens") || refuses(f, format, "max_chars"))
    return LLS_GRAMMAR_NONE;
  return free_text(f, lls_grammar_rule(f->tree, "any_text"), &stops, format, ends);
}

/* ---- tags ---- */

/* One tag of whose `begin` the first `from` bytes were already read, followed by
 * `next`. */
static uint32_t tag_from(struct formats *f, const json_t *tag, size_t from, uint32_t next)
{
  size_t n;
  const char *begin = string(f, tag, "begin", &n);
  const json_t *end = json_object_get(tag, "end");
  bool plain = json_is_string(end);
  if (!plain)
    end = strings(f, tag, "end", true);
  const json_t *ends = plain && json_string_length(end) == 0 ? NULL : end;
  const json_t *content = json_object_get(tag, "content");
  const uint32_t parts[] = {text(f, begin + from, n - from), build(f, content, ends),
                            next};
  return lls_grammar_sequence(f->tree, parts, 3);
}

/* A choice of the tags whose `begin` starts with the trigger; NULL: all tags. */
static uint32_t tags_with(struct formats *f, const json_t *tags, const json_t *trigger,
                          uint32_t next)
{
  size_t n = json_array_size(tags), length = json_string_length(trigger);
  uint32_t *parts = malloc((n + 1) * sizeof *parts), found = 0;
  if (parts == NULL)
    return lls_grammar_fail(f->tree, "no memory for the structural tag");
  for (size_t i = 0, size; i < n; i++) {
    const json_t *tag = json_array_get(tags, i);
    const char *begin = string(f, tag, "begin", &size);
    if (size >= length &&
        (length == 0 || memcmp(begin, json_string_value(trigger), length) == 0))
      parts[found++] = tag_from(f, tag, length, next);
  }
  if (found == 0)
    lls_grammar_fail(f->tree, "the structural tag: no tag begins with the trigger \"%s\"",
                     trigger != NULL ? json_string_value(trigger) : "");
  uint32_t node = lls_grammar_choice(f->tree, parts, found);
  free(parts);
  return node;
}

/* Returns true if each tag starts with a trigger; without one a tag could never begin. */
static bool all_are_triggered(struct formats *f, const json_t *tags,
                              const json_t *triggers)
{
  size_t i, j, n;
  json_t *tag, *trigger;
  json_array_foreach((json_t *)tags, i, tag)
  {
    bool found = false;
    const char *begin = string(f, tag, "begin", &n);
    json_array_foreach((json_t *)triggers, j, trigger)
    {
      size_t length = json_string_length(trigger);
      found |= length <= n && memcmp(begin, json_string_value(trigger), length) == 0;
    }
    if (!found) {
      lls_grammar_fail(f->tree,
                       "the structural tag: no trigger is the beginning of the tag's "
                       "begin \"%s\"",
                       begin);
      return false;
    }
  }
  return true;
}

static uint32_t triggered_tags(struct formats *f, const json_t *format,
                               const json_t *ends)
{
  const json_t *triggers = strings(f, format, "triggers", true), *trigger;
  const json_t *tags = json_object_get(format, "tags");
  bool once = json_is_true(json_object_get(format, "stop_after_first"));
  struct stops stops = {0};
  size_t i;
  if (!json_is_array(triggers) || json_array_size(tags) == 0)
    return lls_grammar_fail(f->tree, "the structural tag: triggered tags need 'triggers' "
                                     "and 'tags'");
  if (!all_are_triggered(f, tags, triggers))
    return LLS_GRAMMAR_NONE;
  uint32_t rule = lls_grammar_rule(f->tree, "triggered_tags");
  uint32_t next = once ? any_end(f, ends) : rule;
  json_array_foreach((json_t *)triggers, i, trigger)
  {
    put(f, &stops, json_string_value(trigger), json_string_length(trigger),
        tags_with(f, tags, trigger, next));
  }
  free_text(f, rule, &stops, format, ends);
  return json_is_true(json_object_get(format, "at_least_one"))
             ? tags_with(f, tags, NULL, next)
             : rule;
}

static uint32_t tags_with_separator(struct formats *f, const json_t *format)
{
  const json_t *tags = json_object_get(format, "tags");
  size_t n;
  const char *separator = string(f, format, "separator", &n);
  if (json_array_size(tags) == 0)
    return lls_grammar_fail(f->tree,
                            "the structural tag: 'tags' must be an array of tags");
  uint32_t tag = tags_with(f, tags, NULL, nothing(f)), node = tag;
  if (!json_is_true(json_object_get(format, "stop_after_first")))
    node = row(f, tag,
               lls_grammar_repeat(f->tree, row(f, text(f, separator, n), tag), 0,
                                  LLS_GRAMMAR_UNBOUNDED));
  return json_is_true(json_object_get(format, "at_least_one"))
             ? node
             : lls_grammar_repeat(f->tree, node, 0, 1);
}

static uint32_t dispatch(struct formats *f, const json_t *format, const json_t *ends)
{
  const json_t *rules = json_object_get(format, "rules"), *pair;
  bool loop = !json_is_false(json_object_get(format, "loop"));
  struct stops stops = {0};
  uint32_t rule = lls_grammar_rule(f->tree, "dispatch");
  uint32_t next = loop ? rule : any_end(f, ends);
  size_t i;
  json_array_foreach((json_t *)rules, i, pair)
  {
    const json_t *pattern = json_array_get(pair, 0);
    uint32_t body = build(f, json_array_get(pair, 1), NULL);
    if (json_string_length(pattern) == 0)
      lls_grammar_fail(f->tree,
                       "the structural tag: a rule of 'dispatch' is not a string "
                       "and a format");
    else
      put(f, &stops, json_string_value(pattern), json_string_length(pattern),
          row(f, body, next));
  }
  if (stops.n == 0)
    lls_grammar_fail(f->tree, "the structural tag: 'rules' must be an array of pairs");
  return free_text(f, rule, &stops, format, ends);
}

/* ---- combined formats ---- */

/* The parts of a sequence or choice. The last part of a sequence, and each part of a
 * choice, is followed by the ends of the tag. */
static uint32_t elements(struct formats *f, const json_t *format, bool sequence,
                         const json_t *ends)
{
  const json_t *list = json_object_get(format, "elements");
  size_t n = json_array_size(list);
  if (n == 0)
    return lls_grammar_fail(f->tree,
                            "the structural tag: 'elements' must be an array of formats");
  uint32_t *parts = malloc(n * sizeof *parts);
  if (parts == NULL)
    return lls_grammar_fail(f->tree, "no memory for the structural tag");
  for (size_t i = 0; i < n; i++)
    parts[i] = build(f, json_array_get(list, i), sequence && i + 1 < n ? NULL : ends);
  uint32_t node = sequence ? lls_grammar_sequence(f->tree, parts, (uint32_t)n)
                           : lls_grammar_choice(f->tree, parts, (uint32_t)n);
  free(parts);
  return node;
}

static uint32_t repeated(struct formats *f, const json_t *format, const char *type)
{
  uint32_t part = build(f, json_object_get(format, "content"), NULL);
  if (strcmp(type, "repeat") != 0)
    return lls_grammar_repeat(f->tree, part, strcmp(type, "plus") == 0,
                              strcmp(type, "optional") == 0 ? 1 : LLS_GRAMMAR_UNBOUNDED);
  const json_t *min = json_object_get(format, "min"),
               *max = json_object_get(format, "max");
  json_int_t low = json_integer_value(min), high = json_integer_value(max);
  if (!json_is_integer(min) || !json_is_integer(max) || low < 0 ||
      (high != -1 && high < low) || low > LLS_REGEX_REPEATS || high > LLS_REGEX_REPEATS)
    return lls_grammar_fail(f->tree,
                            "the structural tag: 'min' and 'max' of a repeat must "
                            "be from few to at most %d, or -1",
                            LLS_REGEX_REPEATS);
  return lls_grammar_repeat(f->tree, part, (uint32_t)low,
                            high == -1 ? LLS_GRAMMAR_UNBOUNDED : (uint32_t)high);
}

static uint32_t schema(struct formats *f, const json_t *format)
{
  const json_t *value = json_object_get(format, "json_schema");
  const char *style = json_string_value(json_object_get(format, "style"));
  if (style != NULL && strcmp(style, "json") != 0)
    return lls_grammar_fail(
        f->tree, "the structural tag: the style \"%s\" is not supported", style);
  if (refuses(f, format, "any_order"))
    return LLS_GRAMMAR_NONE;
  if (!json_is_object(value) && !json_is_boolean(value))
    return lls_grammar_fail(f->tree,
                            "the structural tag: 'json_schema' must be a schema");
  return lls_grammar_json_schema(f->tree, value, true);
}

static uint32_t regex(struct formats *f, const json_t *format)
{
  struct lls_error err = {0};
  int code;
  size_t n;
  const char *pattern = string(f, format, "pattern", &n);
  uint32_t node =
      lls_grammar_regex(f->tree, pattern, n, (struct lls_regex_use){0}, &code, &err);
  return node != LLS_GRAMMAR_NONE
             ? node
             : lls_grammar_fail(f->tree, "the structural tag: %s", err.text);
}

/* Builds the formats that do not depend on the ends of the surrounding tag. */
static uint32_t build_closed(struct formats *f, const json_t *format, const char *type)
{
  static const char *const made[] = {"optional", "plus", "star", "repeat"};
  size_t n;
  for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
    if (strcmp(type, made[i]) == 0)
      return repeated(f, format, type);
  if (strcmp(type, "json_schema") == 0)
    return schema(f, format);
  if (strcmp(type, "regex") == 0)
    return regex(f, format);
  if (strcmp(type, "tag") == 0)
    return tag_from(f, format, 0, nothing(f));
  if (strcmp(type, "tags_with_separator") == 0)
    return tags_with_separator(f, format);
  if (strcmp(type, "const_string") == 0 || strcmp(type, "grammar") == 0) {
    bool grammar = *type == 'g';
    const char *value = string(f, format, grammar ? "grammar" : "value", &n);
    return grammar ? lls_grammar_text(f->tree, value, n) : text(f, value, n);
  }
  return lls_grammar_fail(f->tree,
                          "the structural tag: the format \"%s\" is not supported", type);
}

static uint32_t build_open(struct formats *f, const json_t *format, const json_t *ends)
{
  const char *type = json_string_value(json_object_get(format, "type"));
  if (type == NULL)
    return lls_grammar_fail(
        f->tree, "the structural tag: a format must be an object with a 'type'");
  if (strcmp(type, "any_text") == 0)
    return any_text(f, format, ends);
  if (strcmp(type, "triggered_tags") == 0)
    return triggered_tags(f, format, ends);
  if (strcmp(type, "dispatch") == 0)
    return dispatch(f, format, ends);
  if (strcmp(type, "sequence") == 0 || strcmp(type, "or") == 0)
    return elements(f, format, *type == 's', ends);
  uint32_t node = build_closed(f, format, type);
  return ends == NULL ? node : row(f, node, any_end(f, ends));
}

/* Some formats build their content twice, so the depth alone does not bound the work;
 * the tree's bounds do. */
static uint32_t build(struct formats *f, const json_t *format, const json_t *ends)
{
  if (lls_grammar_has_failed(f->tree))
    return LLS_GRAMMAR_NONE;
  if (f->depth == DEEPEST)
    return lls_grammar_fail(f->tree, "the structural tag: too many formats inside each "
                                     "other");
  f->depth++;
  uint32_t node = build_open(f, format, ends);
  f->depth--;
  return node;
}

/* Converts the old form of a structural tag to the new one. Returns a new reference, or
 * NULL. */
static json_t *renewed(const json_t *tag)
{
  json_t *tags = json_array(), *structure;
  size_t i;
  json_array_foreach(json_object_get(tag, "structures"), i, structure)
  {
    json_t *schema = json_object_get(structure, "schema");
    json_array_append_new(tags,
                          json_pack("{s:s, s:O*, s:O*, s:{s:s, s:O}}", "type", "tag",
                                    "begin", json_object_get(structure, "begin"), "end",
                                    json_object_get(structure, "end"), "content", "type",
                                    "json_schema", "json_schema",
                                    schema != NULL ? schema : json_null()));
  }
  return json_pack("{s:s, s:O*, s:o}", "type", "triggered_tags", "triggers",
                   json_object_get(tag, "triggers"), "tags", tags);
}

uint32_t lls_grammar_structural_tag(struct lls_grammar_tree *tree, const json_t *tag)
{
  struct formats f = {.tree = tree};
  const json_t *format = json_object_get(tag, "format");
  if (format != NULL)
    return build(&f, format, NULL);
  if (!json_is_array(json_object_get(tag, "structures")))
    return lls_grammar_fail(tree, "the structural tag: there is neither 'format' nor "
                                  "'structures' and 'triggers'");
  json_t *made = renewed(tag);
  uint32_t node = made != NULL
                      ? build(&f, made, NULL)
                      : lls_grammar_fail(tree, "no memory for the structural tag");
  json_decref(made);
  return node;
}
