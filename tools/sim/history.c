/* SPDX-License-Identifier: Apache-2.0 */
/* An array of tokens for each session; see history.h. */
#include "tools/sim/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct history {
  int32_t *tokens; /* (n) prompt and answer of its newest turn */
  uint32_t n, capacity;
  uint32_t item; /* index of this turn */
};

struct lls_histories {
  uint32_t n;
  struct history sessions[]; /* (n) by session number - 1 */
};

int lls_histories_create(const struct lls_workload *workload, struct lls_histories **out)
{
  size_t bytes = workload->n_sessions * sizeof(struct history);
  *out = calloc(1, sizeof **out + bytes);
  if (*out == NULL)
    return -ENOMEM;
  (*out)->n = workload->n_sessions;
  return 0;
}

static void forget(struct history *history)
{
  free(history->tokens);
  *history = (struct history){.item = LLS_NO_ITEM};
}

void lls_histories_destroy(struct lls_histories *histories)
{
  for (uint32_t i = 0; histories != NULL && i < histories->n; i++)
    forget(&histories->sessions[i]);
  free(histories);
}

static int have_room(struct history *history, uint32_t n)
{
  if (n <= history->capacity)
    return 0;
  uint32_t capacity = n + n / 2;
  int32_t *tokens = reallocarray(history->tokens, capacity, sizeof *tokens);
  if (tokens == NULL)
    return -ENOMEM;
  history->tokens = tokens;
  history->capacity = capacity;
  return 0;
}

int lls_histories_begin(struct lls_histories *histories, const struct lls_item *item,
                        int32_t *prompt)
{
  if (item->session_number == 0)
    return 0;
  struct history *history = &histories->sessions[item->session_number - 1];
  uint32_t kept = item->kept_tokens < history->n ? item->kept_tokens : history->n;
  if (kept > 0)
    memcpy(prompt, history->tokens, kept * sizeof *prompt);
  if (item->next == LLS_NO_ITEM) {
    forget(history);
    return 0;
  }
  if (have_room(history, item->prompt_tokens + item->output_tokens) < 0)
    return -ENOMEM;
  memcpy(history->tokens, prompt, item->prompt_tokens * sizeof *prompt);
  history->n = item->prompt_tokens;
  history->item = item->index;
  return 0;
}

int lls_histories_token(struct lls_histories *histories, const struct lls_item *item,
                        int32_t token)
{
  if (item->session_number == 0)
    return 0;
  struct history *history = &histories->sessions[item->session_number - 1];
  if (history->item != item->index || history->n == 0)
    return 0;
  if (have_room(history, history->n + 1) < 0)
    return -ENOMEM;
  history->tokens[history->n++] = token;
  return 0;
}
