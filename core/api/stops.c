/* SPDX-License-Identifier: Apache-2.0 */
/* Finds stop strings and stop expressions in texts; see stops.h. */
#include "core/api/stops.h"

#include "core/api/api_internal.h"
#include "core/base/least.h"

#include <errno.h>
#include <stdlib.h>

struct found {
  /* positions in the choice's text; end is SIZE_MAX if nothing was found */
  size_t begin, end;
  const struct lls_stop_string *string;
  const struct lls_regex_finder *regex;
};

int lls_stops_init(struct lls_choice *choice)
{
  const struct lls_api_params *params = &choice->generation->params;
  if (params->n_stop_regex == 0)
    return 0;
  choice->scans = calloc(params->n_stop_regex, sizeof *choice->scans);
  for (size_t i = 0; choice->scans != NULL && i < params->n_stop_regex; i++)
    if ((choice->scans[i] = lls_regex_scan_create(params->stop_regex[i])) == NULL)
      return -ENOMEM;
  return choice->scans != NULL ? 0 : -ENOMEM;
}

void lls_stops_free(struct lls_choice *choice)
{
  size_t n = choice->scans != NULL ? choice->generation->params.n_stop_regex : 0;
  for (size_t i = 0; i < n; i++)
    lls_regex_scan_destroy(choice->scans[i]);
  free(choice->scans);
}

static void find_string(const struct lls_choice *choice, struct found *found)
{
  const struct lls_stop_set *stop = &choice->generation->params.stop;
  size_t at, which, ready = choice->ready; /* the text before has no stop string */
  if (!lls_stop_find(stop, choice->text.data + ready, choice->text.length - ready, &at,
                     &which))
    return;
  const struct lls_stop_string *string = &stop->strings[which];
  *found = (struct found){ready + at, ready + at + string->length, string, NULL};
}

/* Looks for matches in the text from `from` on, which the scans have not read yet. A stop
 * string that ends at the same place takes precedence. */
static void find_match(const struct lls_choice *choice, size_t from, struct found *found)
{
  const struct lls_api_params *params = &choice->generation->params;
  const struct lls_text *text = &choice->text;
  for (size_t i = 0; i < params->n_stop_regex; i++) {
    size_t end, length;
    if (lls_regex_scan_push(choice->scans[i], text->data + from, text->length - from,
                            &end, &length) &&
        from + end < found->end)
      *found =
          (struct found){from + end - length, from + end, NULL, params->stop_regex[i]};
  }
}

/* Returns the bytes at the text's end that may begin a stop. A match that stays in the
 * text (include_stop) is not held back. */
static size_t held(const struct lls_choice *choice)
{
  const struct lls_api_params *params = &choice->generation->params;
  size_t open = choice->text.length - choice->ready;
  size_t most = lls_stop_hold(&params->stop, choice->text.data + choice->ready, open);
  for (size_t i = 0; i < params->n_stop_regex && !params->include_stop; i++)
    most = lls_most_size(most, lls_regex_scan_hold(choice->scans[i]));
  return most;
}

static void end_text(struct lls_choice *choice, const struct found *found)
{
  bool stays = choice->generation->params.include_stop;
  choice->stop_string = found->string;
  choice->stop_regex = found->regex;
  choice->text.length = stays ? found->end : found->begin;
  choice->ready = choice->text.length;
}

void lls_stops_add_text(struct lls_choice *choice, const char *piece, size_t length)
{
  const struct lls_api_params *params = &choice->generation->params;
  struct lls_text *text = &choice->text;
  struct found found = {.end = SIZE_MAX};
  size_t from = text->length;
  LLS_API_ON_MAIN(choice->generation->api);
  lls_text_append(text, piece, length);
  choice->generation->incomplete |= text->failed;
  bool none = params->stop.count == 0 && params->n_stop_regex == 0;
  if (none || choice->n_tokens <= params->min_tokens || text->failed) {
    choice->ready = text->length;
    return;
  }
  LLS_CHECK(choice->ready <= text->length);
  find_string(choice, &found);
  find_match(choice, from, &found);
  if (found.end != SIZE_MAX)
    end_text(choice, &found);
  else
    choice->ready = text->length - held(choice);
}
