/* SPDX-License-Identifier: Apache-2.0 */
/* The table of formats, from their authors' publications, and its search. The order is
 * the order of detection: formats with more specific signs come first. */
#include "text/tools/tool_format.h"

#include <string.h>

#define OBJECT_MIDDLE     "\", \"arguments\": "
#define PARAMETERS_MIDDLE "\", \"parameters\": "

static const struct lls_tool_format formats[] = {
    {
        .name = "harmony",
        .shape = LLS_TOOL_CHANNEL,
        .open = {"<|channel|>", "<|start|>", "<|message|>", "<|constrain|>"},
        .signs = {"<|channel|>", "<|message|>", "<|start|>"},
        .syntax = {"<|channel|>commentary to=", "functions.",
                   " <|constrain|>json<|message|>", "", NULL, ""},
    },
    {
        .name = "functionary_v3.2",
        .shape = LLS_TOOL_NAMED,
        .open = {">>>"},
        .bare = true,
        .name_end = "\n",
        .not_a_name = "all",
        .signs = {">>>", "recipient"},
        .syntax = {"", "", "\n", "", ">>>", ""},
    },
    {
        .name = "qwen3_coder",
        .shape = LLS_TOOL_KEYED,
        .open = {"<tool_call>"},
        .close = "</tool_call>",
        .name_begin = "<function=",
        .name_end = ">",
        .key_begin = "<parameter=",
        .key_end = ">",
        .value_end = "</parameter>",
        .call_end = "</function>",
        .signs = {"<tool_call>", "<function=", "<parameter="},
    },
    {
        .name = "seed_oss",
        .shape = LLS_TOOL_KEYED,
        .open = {"<seed:tool_call>"},
        .close = "</seed:tool_call>",
        .name_begin = "<function=",
        .name_end = ">",
        .key_begin = "<parameter=",
        .key_end = ">",
        .value_end = "</parameter>",
        .call_end = "</function>",
        .signs = {"<function=", "<parameter=", "<seed:think>"},
    },
    {
        .name = "minimax_m2",
        .shape = LLS_TOOL_KEYED,
        .open = {"<minimax:tool_call>"},
        .close = "</minimax:tool_call>",
        .lasting = true,
        .name_begin = "<invoke name=\"",
        .name_end = "\">",
        .key_begin = "<parameter name=\"",
        .key_end = "\">",
        .value_end = "</parameter>",
        .call_end = "</invoke>",
        .signs = {"minimax:tool_call", "<invoke name=", "<parameter name="},
    },
    {
        .name = "minimax_m3",
        .shape = LLS_TOOL_TAGGED,
        .open = {"]<]minimax[>[<tool_call>"},
        .close = "]<]minimax[>[</tool_call>",
        .lasting = true,
        .name_begin = "]<]minimax[>[<invoke name=\"",
        .name_end = "\">",
        .key_begin = "]<]minimax[>[<",
        .key_end = ">",
        .call_end = "]<]minimax[>[</invoke>",
        .signs = {"]<]minimax[>[", "<tool_call>"},
    },
    {
        .name = "hunyuan",
        .shape = LLS_TOOL_KEYED,
        .open = {"<tool_call:opensource>"},
        .around = {"<tool_calls:opensource>", "</tool_calls:opensource>"},
        .name_end = "<tool_sep:opensource>",
        .key_begin = "<arg_key:opensource>",
        .key_end = "</arg_key:opensource>",
        .value_begin = "<arg_value:opensource>",
        .value_end = "</arg_value:opensource>",
        .call_end = "</tool_call:opensource>",
        .signs = {":opensource"},
    },
    {
        /* of its previews: marks without a suffix */
        .name = "hy3",
        .shape = LLS_TOOL_KEYED,
        .open = {"<tool_call>"},
        .around = {"<tool_calls>", "</tool_calls>"},
        .name_end = "<tool_sep>",
        .key_begin = "<arg_key>",
        .key_end = "</arg_key>",
        .value_begin = "<arg_value>",
        .value_end = "</arg_value>",
        .call_end = "</tool_call>",
        .signs = {"<tool_sep", "<arg_key"},
    },
    {
        .name = "glm4",
        .shape = LLS_TOOL_KEYED,
        .open = {"<tool_call>"},
        .key_begin = "<arg_key>",
        .key_end = "</arg_key>",
        .value_begin = "<arg_value>",
        .value_end = "</arg_value>",
        .call_end = "</tool_call>",
        .signs = {"<tool_call>", "<arg_key>", "<arg_value>"},
    },
    {
        .name = "deepseek_v3.2",
        .shape = LLS_TOOL_KEYED,
        .open = {"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"},
        .around = {"</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"},
        .lasting = true,
        .name_begin = "<｜DSML｜invoke name=\"",
        .name_end = "\">",
        .key_begin = "<｜DSML｜parameter name=\"",
        .key_end = "\" string=\"",
        .value_begin = "\">",
        .value_end = "</｜DSML｜parameter>",
        .call_end = "</｜DSML｜invoke>",
        .signs = {"｜DSML｜", "invoke name="},
    },
    {
        .name = "minicpm5",
        .shape = LLS_TOOL_KEYED,
        .open = {"<function name=\""},
        .name_end = "\">",
        .key_begin = "<param name=\"",
        .key_end = "\">",
        .value_end = "</param>",
        .call_end = "</function>",
        .signs = {"<function name=", "<param name="},
    },
    {
        .name = "kimi_k2",
        .shape = LLS_TOOL_NAMED,
        .open = {"<|tool_call_begin|>"},
        .around = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"},
        .close = "<|tool_call_end|>",
        .name_begin = "functions.",
        .name_end = "<|tool_call_argument_begin|>",
        .signs = {"<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"},
        .syntax = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>functions.",
                   ":0<|tool_call_argument_begin|>", "<|tool_call_end|>", "",
                   "<|tool_calls_section_end|>"},
    },
    {
        /* XTML: the answer itself is between marks, too */
        .name = "kimi_k3",
        .shape = LLS_TOOL_KEYED,
        .open = {"<|open|>call tool=\""},
        .around = {"<|open|>tools<|sep|>", "<|close|>tools<|sep|>",
                   "<|open|>response<|sep|>", "<|close|>response<|sep|>",
                   "<|close|>message<|sep|>"},
        .framed = true,
        .name_end = "\" index=\"",
        .name_over = "\"<|sep|>",
        .key_begin = "<|open|>argument key=\"",
        .key_end = "\" type=\"",
        .value_begin = "\"<|sep|>",
        .value_end = "<|close|>argument<|sep|>",
        .exact = true,
        .escaped = true,
        .call_end = "<|close|>call<|sep|>",
        .signs = {"<|open|>", "<|close|>", "<|sep|>"},
    },
    {
        .name = "solar_open",
        .shape = LLS_TOOL_NAMED,
        .open = {"<|tool_call:begin|>"},
        .around = {"<|tool_calls|>", "<|calls|>"},
        .close = "<|tool_call:end|>",
        .name_begin = "<|tool_call:name|>",
        .name_end = "<|tool_call:args|>",
        .signs = {"<|tool_call:begin|>", "<|tool_call:args|>"},
    },
    {
        .name = "deepseek_r1",
        .shape = LLS_TOOL_NAMED,
        .open = {"<｜tool▁call▁begin｜>"},
        .around = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
        .close = "```<｜tool▁call▁end｜>",
        .name_begin = "function<｜tool▁sep｜>",
        .name_end = "\n```json\n",
        .signs = {"<｜tool▁call▁begin｜>", "```json"},
        .syntax = {"<｜tool▁calls▁begin｜>",
                   "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n",
                   "\n```<｜tool▁call▁end｜>", "\n", "<｜tool▁calls▁end｜>"},
    },
    {
        .name = "deepseek_v3.1",
        .shape = LLS_TOOL_NAMED,
        .open = {"<｜tool▁call▁begin｜>"},
        .around = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
        .close = "<｜tool▁call▁end｜>",
        .name_end = "<｜tool▁sep｜>",
        .signs = {"<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"},
        .syntax = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                   "<｜tool▁call▁end｜>", "", "<｜tool▁calls▁end｜>"},
    },
    {
        .name = "mistral_v11",
        .shape = LLS_TOOL_NAMED,
        .open = {"[TOOL_CALLS]"},
        .name_end = "[ARGS]",
        .signs = {"[TOOL_CALLS]", "[ARGS]"},
        .short_ids = true,
        .syntax = {"", "[TOOL_CALLS]", "[ARGS]", "", "", ""},
    },
    {
        .name = "mistral",
        .shape = LLS_TOOL_JSON,
        .open = {"[TOOL_CALLS]"},
        .signs = {"[TOOL_CALLS]"},
        .short_ids = true,
        .syntax = {"[TOOL_CALLS][", "{\"name\": \"", OBJECT_MIDDLE, "}", ", ", "]"},
    },
    {
        .name = "phi4",
        .shape = LLS_TOOL_JSON,
        .open = {"<|tool_call|>", "functools"},
        .close = "<|/tool_call|>",
        .signs = {"<|tool_call|>", "<|/tool_call|>"},
        .syntax = {"<|tool_call|>[", "{\"name\": \"", OBJECT_MIDDLE, "}", ", ",
                   "]<|/tool_call|>"},
    },
    {
        .name = "granite",
        .shape = LLS_TOOL_JSON,
        .open = {"<|tool_call|>", "<tool_call>"},
        .close = "</tool_call>",
        .signs = {"<|tool_call|>"},
        .syntax = {"<|tool_call|>[", "{\"name\": \"", OBJECT_MIDDLE, "}", ", ", "]"},
    },
    {
        .name = "command_r7b",
        .shape = LLS_TOOL_JSON,
        .open = {"<|START_ACTION|>"},
        .close = "<|END_ACTION|>",
        .signs = {"<|START_ACTION|>"},
        .syntax = {"<|START_ACTION|>[", "{\"tool_name\": \"", PARAMETERS_MIDDLE, "}",
                   ", ", "]<|END_ACTION|>"},
    },
    {
        .name = "command_r_plus",
        .shape = LLS_TOOL_JSON,
        .open = {"Action:\n```json", "Action: ```json"},
        .close = "```",
        .signs = {"Action:", "```json", "tool_name"},
        .syntax = {"Action: ```json\n[", "{\"tool_name\": \"", PARAMETERS_MIDDLE, "}",
                   ", ", "]```"},
    },
    {
        .name = "gigachat3",
        .shape = LLS_TOOL_JSON,
        .open = {"<|function_call|>", "function call<|role_sep|>\n"},
        .signs = {"<|role_sep|>", "<|message_sep|>", "function"},
        .syntax = {"<|function_call|>", "{\"name\": \"", OBJECT_MIDDLE, "}", NULL, ""},
    },
    {
        .name = "nemotron_v2",
        .shape = LLS_TOOL_JSON,
        .open = {"<TOOLCALL>"},
        .close = "</TOOLCALL>",
        .signs = {"<TOOLCALL>"},
        .syntax = {"<TOOLCALL>[", "{\"name\": \"", OBJECT_MIDDLE, "}", ", ",
                   "]</TOOLCALL>"},
    },
    {
        .name = "apertus",
        .shape = LLS_TOOL_JSON,
        .open = {"<|tools_prefix|>"},
        .close = "<|tools_suffix|>",
        .name_is_key = true,
        .signs = {"<|tools_prefix|>", "<|tools_suffix|>"},
        .syntax = {"<|tools_prefix|>[", "{\"", "\": ", "}", ", ", "]<|tools_suffix|>"},
    },
    {
        .name = "apriel",
        .shape = LLS_TOOL_JSON,
        .open = {"<tool_calls>"},
        .close = "</tool_calls>",
        .signs = {"<tool_calls>"},
        .syntax = {"<tool_calls>[", "{\"name\": \"", OBJECT_MIDDLE, "}", ", ",
                   "]</tool_calls>"},
    },
    {
        .name = "functools",
        .shape = LLS_TOOL_JSON,
        .open = {"functools"},
        .signs = {"functools["},
        .syntax = {"functools[", "{\"name\": \"", OBJECT_MIDDLE, "}", ", ", "]"},
    },
    {
        .name = "functionary_v3.1",
        .shape = LLS_TOOL_NAMED,
        .open = {"<function="},
        .close = "</function>",
        .name_end = ">",
        .signs = {"<function=", "</function>"},
        .syntax = {"", "<function=", ">", "</function>", "", ""},
    },
    {
        .name = "gemma4",
        .shape = LLS_TOOL_LOOSE,
        .open = {"<|tool_call>"},
        .close = "<tool_call|>",
        .name_begin = "call:",
        .name_end = "{",
        .value_begin = "<|\"|>",
        .signs = {"<|tool_call>", "<tool_call|>"},
    },
    {
        .name = "hermes",
        .shape = LLS_TOOL_JSON,
        .open = {"<tool_call>"},
        .close = "</tool_call>",
        .signs = {"<tool_call>", "</tool_call>"},
        .syntax = {"", "<tool_call>\n{\"name\": \"", OBJECT_MIDDLE, "}\n</tool_call>",
                   "\n", ""},
    },
    {
        .name = "lfm2",
        .shape = LLS_TOOL_LOOSE,
        .open = {"<|tool_call_start|>"},
        .close = "<|tool_call_end|>",
        .name_end = "(",
        .signs = {"List of tools: "},
        .syntax = {"<|tool_call_start|>[", "{\"name\": \"", OBJECT_MIDDLE, "}", ", ",
                   "]<|tool_call_end|>"},
    },
    {
        .name = "llama3_json",
        .shape = LLS_TOOL_JSON,
        .open = {"<|python_tag|>"},
        .bare = true,
        .signs = {"parameters", "<|eot_id|>", "tool_calls"},
        .syntax = {"", "{\"name\": \"", PARAMETERS_MIDDLE, "}", "; ", ""},
    },
    {
        .name = "generic",
        .shape = LLS_TOOL_JSON,
        .open = {"<tool_call>", "[TOOL_CALLS]", "<|tool_call|>", "<|python_tag|>"},
        .close = "</tool_call>",
        .bare = true,
        .syntax = {"[", "{\"name\": \"", OBJECT_MIDDLE, "}", ", ", "]"},
    },
};

#define N_FORMATS (sizeof formats / sizeof *formats)

static const struct lls_reasoning_format reasonings[] = {
    {"kimi_k3", "<|open|>think<|sep|>", "<|close|>think<|sep|>", "<|open|>"},
    {"hunyuan", "<think:opensource>", "</think:opensource>", ":opensource"},
    {"minimax_m3", "<mm:think>", "</mm:think>", NULL},
    {"think", "<think>", "</think>", NULL},
    {"mistral", "[THINK]", "[/THINK]", NULL},
    {"command", "<|START_THINKING|>", "<|END_THINKING|>", NULL},
    {"seed", "<seed:think>", "</seed:think>", NULL},
    {"gemma4", "<|channel>thought", "<channel|>", NULL},
    {"apertus", "<|inner_prefix|>", "<|inner_suffix|>", NULL},
};

#define N_REASONINGS (sizeof reasonings / sizeof *reasonings)

const struct lls_tool_format *lls_tool_format_find(const char *name)
{
  for (size_t i = 0; i < N_FORMATS; i++)
    if (strcmp(formats[i].name, name) == 0)
      return &formats[i];
  return NULL;
}

static bool has_signs(const struct lls_tool_format *format, const char *source)
{
  for (size_t i = 0; i < LLS_TOOL_MARKS && format->signs[i] != NULL; i++)
    if (strstr(source, format->signs[i]) == NULL)
      return false;
  return true;
}

const struct lls_tool_format *lls_tool_format_detect(const char *source)
{
  size_t i = 0;
  while (!has_signs(&formats[i], source))
    i++; /* the last one has no signs */
  return &formats[i];
}

const struct lls_tool_format *
lls_tool_format_written(const struct lls_tool_format *format)
{
  return format->syntax.begin != NULL ? format : &formats[N_FORMATS - 1];
}

const struct lls_reasoning_format *lls_reasoning_format_find(const char *name)
{
  for (size_t i = 0; i < N_REASONINGS; i++)
    if (strcmp(reasonings[i].name, name) == 0)
      return &reasonings[i];
  return NULL;
}

const struct lls_reasoning_format *lls_reasoning_format_detect(const char *source)
{
  for (size_t i = 0; i < N_REASONINGS; i++)
    if (strstr(source, reasonings[i].close) != NULL ||
        strstr(source, reasonings[i].open) != NULL ||
        (reasonings[i].sign != NULL && strstr(source, reasonings[i].sign) != NULL))
      return &reasonings[i];
  return NULL;
}

/* Returns true if one string contains the other: a mark may consist of several tokens,
 * and a token may be a part of a mark. */
static bool within(const char *mark, const char *text)
{
  return mark != NULL && strstr(mark, text) != NULL;
}

bool lls_tool_mark(const struct lls_tool_format *format,
                   const struct lls_reasoning_format *reasoning, const char *text)
{
  if (reasoning != NULL &&
      (within(reasoning->open, text) || within(reasoning->close, text)))
    return true;
  if (format == NULL)
    return false;
  for (size_t i = 0; i < LLS_TOOL_MARKS; i++)
    if (within(format->open[i], text))
      return true;
  for (size_t i = 0; i < LLS_TOOL_AROUND; i++)
    if (within(format->around[i], text))
      return true;
  const char *const others[] = {
      format->close,       format->name_begin, format->name_end,
      format->name_over,   format->key_begin,  format->key_end,
      format->value_begin, format->value_end,  format->call_end};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (within(others[i], text))
      return true;
  return within("<|end|><|call|><|return|>", text) && format->shape == LLS_TOOL_CHANNEL;
}
