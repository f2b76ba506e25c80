/* SPDX-License-Identifier: Apache-2.0 */
/* Building and clearing an answer; see tool_answer.h. */
#include "text/tools/tool_answer.h"

#include <stdlib.h>
#include <string.h>

static bool make_room(struct lls_tool_answer *answer)
{
  if (answer->n_calls < answer->capacity)
    return true;
  uint32_t capacity = answer->capacity > 0 ? 2 * answer->capacity : 2;
  struct lls_tool_call *calls = realloc(answer->calls, capacity * sizeof *calls);
  if (calls == NULL)
    return false;
  answer->calls = calls;
  answer->capacity = capacity;
  return true;
}

bool lls_tool_answer_calls(const struct lls_tool_answer *answer)
{
  return answer->n_calls > 0 && answer->n_whole == answer->n_calls;
}

void lls_tool_answer_call(struct lls_tool_answer *answer, const char *name, size_t length)
{
  char *copy = strndup(name, length);
  if (copy == NULL || !make_room(answer)) {
    free(copy);
    answer->failed = true;
    return;
  }
  answer->calls[answer->n_calls++] = (struct lls_tool_call){.name = copy};
}

void lls_tool_answer_arguments(struct lls_tool_answer *answer, const char *bytes,
                               size_t n)
{
  if (answer->n_calls == 0)
    return;
  struct lls_text *arguments = &answer->calls[answer->n_calls - 1].arguments;
  lls_text_append(arguments, bytes, n);
  answer->failed |= arguments->failed;
}

/* Returns the first call with unsent parts: of the announced calls only the last one
 * can have received more arguments. */
static uint32_t first_unsent(const struct lls_tool_answer *answer)
{
  return answer->n_announced > 0 ? answer->n_announced - 1 : 0;
}

bool lls_tool_answer_news(const struct lls_tool_answer *answer)
{
  uint32_t first = first_unsent(answer);
  return answer->content.length > 0 || answer->reasoning.length > 0 ||
         answer->n_calls > answer->n_announced ||
         (first < answer->n_calls && answer->calls[first].arguments.length > 0);
}

bool lls_tool_answer_lacks(const struct lls_tool_answer *answer)
{
  return answer->failed || answer->content.failed || answer->reasoning.failed;
}

void lls_tool_answer_sent(struct lls_tool_answer *answer)
{
  lls_text_clear(&answer->content);
  lls_text_clear(&answer->reasoning);
  for (uint32_t i = first_unsent(answer); i < answer->n_calls; i++)
    lls_text_clear(&answer->calls[i].arguments);
  answer->n_announced = answer->n_calls;
}

void lls_tool_answer_free(struct lls_tool_answer *answer)
{
  for (uint32_t i = 0; i < answer->n_calls; i++) {
    free(answer->calls[i].name);
    lls_text_free(&answer->calls[i].arguments);
  }
  free(answer->calls);
  lls_text_free(&answer->content);
  lls_text_free(&answer->reasoning);
  *answer = (struct lls_tool_answer){0};
}
