/* SPDX-License-Identifier: Apache-2.0 */
/* Creates and ends the parser; handles reasoning and content; see tool_parser.h. */
#include "text/tools/tool_parser.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/json_memory.h"
#include "text/tools/tool_parser_internal.h"

#define MAX_MARKS      8
#define MAX_HELD_SPACE 256 /* bytes of white space allowed before a call */

/* ---- reasoning ------------------------------------------------------------------- */

/* At the beginning of the answer: after the opening mark is reasoning; MiniMax M3 begins
 * an answer without reasoning with the closing mark. */
static bool step_start(struct lls_tool_parser *parser)
{
  const struct lls_text *held = &parser->held;
  size_t space = 0;
  while (space < held->length && lls_tool_is_space(held->data[space]))
    space++;
  const char *const marks[] = {parser->options.reasoning->open,
                               parser->options.reasoning->close};
  bool near = space <= MAX_HELD_SPACE, maybe = false; /* farther white space may be sent
                                                       * content */
  parser->mode = LLS_TOOL_IN_CONTENT;
  for (size_t i = 0; i < 2 && near; i++) {
    int begins = lls_tool_begins(held->data + space, held->length - space, marks[i]);
    maybe |= begins == 0;
    if (begins <= 0)
      continue;
    parser->mode = i == 0 ? LLS_TOOL_IN_REASONING : LLS_TOOL_IN_CONTENT;
    parser->at = space + strlen(marks[i]);
    parser->trimming = true;
    lls_tool_take(parser);
    return true;
  }
  if (maybe)
    parser->mode = LLS_TOOL_AT_START;
  return !maybe;
}

static void emit_reasoning(struct lls_tool_parser *parser, size_t n)
{
  size_t from = 0;
  while (parser->trimming && from < n && lls_tool_is_space(parser->held.data[from]))
    from++;
  if (from < n) {
    lls_text_append(&parser->answer->reasoning, parser->held.data + from, n - from);
    parser->trimming = false;
  }
}

/* Returns n without the white space at the end of the text. */
static size_t without_space(const char *text, size_t n)
{
  size_t kept = n;
  while (kept > 0 && n - kept < MAX_HELD_SPACE && lls_tool_is_space(text[kept - 1]))
    kept--;
  return kept;
}

static bool step_reasoning(struct lls_tool_parser *parser)
{
  struct lls_text *held = &parser->held;
  struct lls_stop_string close = {(char *)parser->options.reasoning->close,
                                  strlen(parser->options.reasoning->close)};
  const struct lls_stop_set set = {&close, 1};
  size_t at, which;
  bool found = lls_stop_find(&set, held->data, held->length, &at, &which);
  if (!found)
    at = held->length - lls_stop_hold(&set, held->data, held->length);
  parser->at = without_space(held->data, at);
  emit_reasoning(parser, parser->at);
  if (found) {
    parser->at = at + close.length;
    parser->mode = LLS_TOOL_IN_CONTENT;
    parser->trimming = true;
  }
  lls_tool_take(parser);
  return found;
}

/* ---- content --------------------------------------------------------------------- */

/* At the beginning of the content: returns true if a call without a mark may begin
 * here. */
static bool try_bare(struct lls_tool_parser *parser)
{
  const struct lls_text *held = &parser->held;
  size_t at = 0;
  while (at < held->length && lls_tool_is_space(held->data[at]))
    at++;
  if (at == held->length && at <= MAX_HELD_SPACE)
    return true; /* the text to come decides */
  parser->begun = true;
  bool named = parser->options.format->shape == LLS_TOOL_NAMED;
  bool call =
      at < held->length && (named || held->data[at] == '{' || held->data[at] == '[');
  if (!call)
    return false;
  parser->bare = true;
  parser->at = at;
  parser->mode = LLS_TOOL_AT_CALL;
  return true;
}

/* Returns true if the mark is the beginning of the call itself, because the mark before
 * all calls was omitted: it then stays in held, and the call must name a tool. */
static bool begins_call(const struct lls_tool_parser *parser,
                        const struct lls_stop_string *mark)
{
  const struct lls_tool_format *format = parser->options.format;
  return format->shape == LLS_TOOL_KEYED && mark->text == format->name_begin;
}

static bool is_around(const struct lls_tool_format *format,
                      const struct lls_stop_string *mark)
{
  bool found = false;
  for (size_t i = 0; i < LLS_TOOL_AROUND; i++)
    found |= mark->text == format->around[i];
  return found;
}

/* Handles a mark in held, after `space` bytes of white space. */
static bool pass_mark(struct lls_tool_parser *parser, size_t space,
                      const struct lls_stop_string *mark)
{
  parser->at = space + mark->length;
  parser->bare = begins_call(parser, mark);
  if (parser->bare)
    parser->at = space;
  if (is_around(parser->options.format, mark)) {
    parser->trimming = true;
    lls_tool_take(parser);
    return true;
  }
  parser->mode = LLS_TOOL_AT_CALL;
  return true;
}

/* Returns the mark at the beginning of the text, or NULL; *maybe: more text may
 * complete a mark. */
static const struct lls_stop_string *mark_at(const struct lls_tool_parser *parser,
                                             const char *text, size_t n, bool *maybe)
{
  const struct lls_stop_set *marks = &parser->marks;
  *maybe = false;
  for (size_t i = 0; i < marks->count; i++) {
    int begins = lls_tool_begins(text, n, marks->strings[i].text);
    if (begins > 0)
      return &marks->strings[i];
    *maybe |= begins == 0;
  }
  return NULL;
}

/* Decides between a call and a form at the first character that is not white space, or
 * after a few more. */
static bool step_form(struct lls_tool_parser *parser)
{
  struct lls_text *held = &parser->held;
  size_t space = 0;
  bool maybe;
  if (!parser->has_content) {
    if (!parser->begun && parser->options.format->bare && try_bare(parser))
      return parser->mode == LLS_TOOL_AT_CALL;
    while (space < held->length && lls_tool_is_space(held->data[space]))
      space++;
    const struct lls_stop_string *mark =
        mark_at(parser, held->data + space, held->length - space, &maybe);
    if (mark != NULL)
      return pass_mark(parser, space, mark);
    if (maybe)
      return false;
  }
  lls_tool_emit_content(parser, held->data, held->length);
  parser->at = held->length;
  lls_tool_take(parser);
  return false;
}

static bool step_content(struct lls_tool_parser *parser)
{
  struct lls_text *held = &parser->held;
  bool looks = parser->options.tools != NULL;
  if (looks && parser->options.form)
    return step_form(parser);
  if (looks && !parser->begun && parser->options.format->bare && try_bare(parser))
    return parser->mode == LLS_TOOL_AT_CALL;
  size_t at, which;
  bool found = lls_stop_find(&parser->marks, held->data, held->length, &at, &which);
  if (!found)
    at = held->length - lls_stop_hold(&parser->marks, held->data, held->length);
  size_t shown = looks ? without_space(held->data, at) : at;
  lls_tool_emit_content(parser, held->data, shown);
  parser->at = shown;
  lls_tool_take(parser);
  return found && pass_mark(parser, at - shown, &parser->marks.strings[which]);
}

/* ---- creation and end ------------------------------------------------------------ */

static void add_mark(struct lls_tool_parser *parser, const char *text)
{
  if (text != NULL)
    parser->marks.strings[parser->marks.count++] =
        (struct lls_stop_string){(char *)text, strlen(text)};
}

/* Collects the marks. Their strings belong to the table, only the array is the
 * parser's. */
static bool collect_marks(struct lls_tool_parser *parser)
{
  static const char *const ends[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>",
                                     "<|channel|>"};
  const struct lls_tool_format *format = parser->options.format;
  parser->marks.strings = calloc(MAX_MARKS, sizeof *parser->marks.strings);
  if (parser->marks.strings == NULL)
    return false;
  bool channel = format->shape == LLS_TOOL_CHANNEL;
  for (size_t i = 0; channel && i < sizeof ends / sizeof *ends; i++)
    add_mark(parser, ends[i]);
  bool calls = !channel && parser->options.tools != NULL;
  for (size_t i = 0; (calls || format->framed) && i < LLS_TOOL_AROUND; i++)
    add_mark(parser, format->around[i]);
  if (!calls)
    return true;
  for (size_t i = 0; i < LLS_TOOL_MARKS; i++)
    add_mark(parser, format->open[i]);
  if (format->shape == LLS_TOOL_KEYED)
    add_mark(parser, format->name_begin);
  return true;
}

static enum lls_tool_mode first_mode(const struct lls_tool_parser_options *options)
{
  if (options->format->shape == LLS_TOOL_CHANNEL)
    return options->in_reasoning ? LLS_TOOL_IN_MESSAGE : LLS_TOOL_AT_MESSAGE;
  if (options->reasoning == NULL)
    return LLS_TOOL_IN_CONTENT;
  return options->in_reasoning ? LLS_TOOL_IN_REASONING : LLS_TOOL_AT_START;
}

struct lls_tool_parser *
lls_tool_parser_create(const struct lls_tool_parser_options *options,
                       struct lls_tool_answer *answer)
{
  struct lls_tool_parser *parser = calloc(1, sizeof *parser);
  if (parser == NULL)
    return NULL;
  parser->options = *options;
  parser->answer = answer;
  parser->mode = first_mode(options);
  parser->trimming = parser->mode == LLS_TOOL_IN_REASONING;
  parser->message = LLS_TOOL_WRAPPER; /* for gpt-oss: the prompt opened a reasoning
                                       * message */
  if (collect_marks(parser))
    return parser;
  free(parser);
  return NULL;
}

void lls_tool_parser_destroy(struct lls_tool_parser *parser)
{
  if (parser == NULL)
    return;
  free(parser->marks.strings);
  lls_text_free(&parser->held);
  lls_text_free(&parser->repaired);
  free(parser);
}

static bool step(struct lls_tool_parser *parser)
{
  static bool (*const steps[])(struct lls_tool_parser *) = {
      [LLS_TOOL_AT_START] = step_start,
      [LLS_TOOL_IN_REASONING] = step_reasoning,
      [LLS_TOOL_IN_CONTENT] = step_content,
      [LLS_TOOL_AT_CALL] = lls_tool_step_call,
      [LLS_TOOL_IN_OBJECT] = lls_tool_step_object,
      [LLS_TOOL_IN_NAME] = lls_tool_step_name,
      [LLS_TOOL_IN_ARGUMENTS] = lls_tool_step_arguments,
      [LLS_TOOL_IN_LOOSE] = lls_tool_step_loose,
      [LLS_TOOL_IN_KEYS] = lls_tool_step_keys,
      [LLS_TOOL_IN_TAGS] = lls_tool_step_tags,
      [LLS_TOOL_AFTER_CALL] = lls_tool_step_after,
      [LLS_TOOL_AT_MESSAGE] = lls_tool_step_message,
      [LLS_TOOL_IN_HEADER] = lls_tool_step_message,
      [LLS_TOOL_IN_MESSAGE] = lls_tool_step_message,
  };
  return parser->mode != LLS_TOOL_OVER && steps[parser->mode](parser);
}

void lls_tool_parser_push(struct lls_tool_parser *parser, const char *bytes, size_t n)
{
  if (n == 0 || parser->mode == LLS_TOOL_OVER)
    return;
  /* counts names that were cut because memory ran out */
  uint64_t shortages = lls_json_shortages();
  lls_text_append(&parser->held, bytes, n);
  while (parser->held.length > 0 && step(parser))
    ;
  parser->answer->failed |= parser->held.failed || lls_json_shortages() != shortages;
  if (parser->held.length <= LLS_TOOL_HELD_BYTES)
    return;
  parser->at = parser->held.length;
  lls_tool_give_up(parser);
}

/* Ends the answer within a call that was reported. */
static void finish_call(struct lls_tool_parser *parser, bool cut)
{
  bool keys = parser->mode == LLS_TOOL_IN_KEYS || parser->mode == LLS_TOOL_IN_TAGS;
  if (parser->mode == LLS_TOOL_IN_KEYS)
    lls_tool_finish_keys(parser, cut);
  else if (parser->mode == LLS_TOOL_IN_TAGS)
    lls_tool_finish_tags(parser, cut);
  if (lls_json_repair_is_whole(&parser->repair) ||
      (!cut && keys && !parser->has_arguments && parser->held.length == 0))
    lls_tool_end_call(parser);
  parser->calling = false;
  lls_text_clear(&parser->held);
}

/* Returns true if the answer was cut after a mark, before the call's name was known. */
static bool is_cut_call(const struct lls_tool_parser *parser)
{
  bool marked = !parser->bare || parser->options.format->shape == LLS_TOOL_KEYED;
  return marked &&
         (parser->mode == LLS_TOOL_AT_CALL || parser->mode == LLS_TOOL_IN_OBJECT ||
          parser->mode == LLS_TOOL_IN_NAME || parser->mode == LLS_TOOL_IN_HEADER);
}

void lls_tool_parser_finish(struct lls_tool_parser *parser, bool cut)
{
  if (parser->calling)
    finish_call(parser, cut);
  else if (cut && is_cut_call(parser))
    lls_text_clear(&parser->held);
  struct lls_text *held = &parser->held;
  bool spaces = without_space(held->data, held->length) == 0;
  bool calls = parser->answer->n_calls > 0;
  if (lls_tool_parser_in_reasoning(parser))
    emit_reasoning(parser, without_space(held->data, held->length));
  else if (parser->mode != LLS_TOOL_OVER && parser->mode != LLS_TOOL_AFTER_CALL &&
           !(calls && spaces))
    lls_tool_emit_content(parser, held->data, held->length);
  parser->mode = LLS_TOOL_OVER;
  lls_text_clear(held);
}

bool lls_tool_parser_in_reasoning(const struct lls_tool_parser *parser)
{
  return parser->mode == LLS_TOOL_IN_REASONING ||
         (parser->mode == LLS_TOOL_IN_MESSAGE && parser->message == LLS_TOOL_WRAPPER);
}

bool lls_tool_parser_is_over(const struct lls_tool_parser *parser)
{
  return parser->mode == LLS_TOOL_OVER;
}
