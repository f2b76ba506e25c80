/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms in which models write tool calls and their reasoning: a table, from which the
 * parser (tool_parser.h) reads answers and tool_grammar.c makes the constraint of a call
 * that must be made. Which of them a model writes is seen in its chat template.
 *
 * All of it is static and never changes.
 */
#ifndef LLS_TOOLS_TOOL_FORMAT_H
#define LLS_TOOLS_TOOL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

enum lls_tool_shape {
  LLS_TOOL_JSON,   /* {"name": ..., "arguments": {...}}, alone or in an array */
  LLS_TOOL_NAMED,  /* the name, name_end, and the arguments as JSON */
  LLS_TOOL_KEYED,  /* the name, and each argument with its key, between marks */
  LLS_TOOL_CHANNEL /* gpt-oss' messages, of which a header says whom they are for */
};

#define LLS_TOOL_MARKS 4

/* Headers of gpt-oss' messages: the thought's, and the answer's. */
#define LLS_TOOL_ANALYSIS "<|channel|>analysis"
#define LLS_TOOL_FINAL    "<|channel|>final"
#define LLS_TOOL_MESSAGE  "<|message|>"

/* How a call is written where it must be made: before, name, middle, arguments, after. */
struct lls_tool_syntax {
  const char *begin;   /* before the first call */
  const char *before;  /* before each call's name */
  const char *middle;  /* between name and arguments */
  const char *after;   /* after each call's arguments */
  const char *between; /* two calls; NULL: there can only be one */
  const char *end;     /* after the last call */
};

struct lls_tool_format {
  const char *name; /* in [model] tool_format */
  enum lls_tool_shape shape;
  const char *open[LLS_TOOL_MARKS]; /* what calls begin with, NULL-ended unless full */
  const char *close;       /* what a call, or a list of them, ends with; or NULL */
  const char *around[2];   /* marks around all calls, which say nothing more; or NULL */
  bool bare;               /* an answer may also begin with a call without any mark */
  bool lasting;            /* after a call the next one follows without its mark */
  const char *name_begin;  /* NAMED, KEYED: before the name, if it is there; or NULL */
  const char *name_end;    /* NAMED; KEYED: after the name, or NULL */
  const char *not_a_name;  /* NAMED: the name that stands before content, or NULL */
  const char *key_begin;   /* KEYED */
  const char *key_end;     /* KEYED */
  const char *value_begin; /* KEYED: after key_end and white space, or NULL */
  const char *value_end;   /* KEYED */
  const char *call_end;    /* KEYED: after the last argument */
  const char *signs[LLS_TOOL_MARKS]; /* all of them are in a template of this format */
  bool short_ids;                    /* the template wants ids of 9 letters and digits */
  struct lls_tool_syntax syntax;     /* begin is NULL where GENERIC's is taken */
};

/* The marks around the reasoning of an answer. */
struct lls_reasoning_format {
  const char *name; /* in [model] reasoning_format */
  const char *open, *close;
};

/* Those that there are, for messages; test_tools.c compares them with the tables. */
#define LLS_TOOL_FORMAT_NAMES                                                            \
  "harmony, functionary_v3.2, qwen3_coder, seed_oss, minimax_m2, glm4, hunyuan, "        \
  "deepseek_v3.2, minicpm5, kimi_k2, solar_open, deepseek_r1, deepseek_v3.1, "           \
  "mistral_v11, mistral, phi4, granite, command_r7b, command_r_plus, gigachat3, "        \
  "nemotron_v2, apriel, functools, functionary_v3.1, hermes, llama3_json, generic"
#define LLS_REASONING_FORMAT_NAMES "think, mistral, command, seed"

/* By the name of [model] tool_format; NULL where there is none. */
const struct lls_tool_format *lls_tool_format_find(const char *name);
/* By a chat template's source; the generic one where it shows no other. */
const struct lls_tool_format *lls_tool_format_detect(const char *source);
/* The format of required calls: this one, or the generic one where it has no syntax. */
const struct lls_tool_format *lls_tool_format_written(const struct lls_tool_format *);

const struct lls_reasoning_format *lls_reasoning_format_find(const char *name);
/* NULL where the template shows none. */
const struct lls_reasoning_format *lls_reasoning_format_detect(const char *source);

/* True if the text, such as a special token's, is a mark of either; both may be NULL. */
bool lls_tool_mark(const struct lls_tool_format *format,
                   const struct lls_reasoning_format *reasoning, const char *text);

#endif
