/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the way from tokens to the events of a stream, with any tokens and any stop
 * strings. The sent text consists of whole characters, contains nothing of a stop
 * string, and no line end inside an event.
 *
 * The input: a count of stop strings, each a length and its bytes; then token ids.
 */
#include <jansson.h>

#include "core/base/stop_strings.h"
#include "text/tokenizer/tokenizer.h"
#include "text/base/utf8.h"
#include "t/fuzz/fuzz.h"

#define MAX_STOPS 3

struct input {
  const uint8_t *data;
  size_t size;
};

static unsigned next(struct input *in)
{
  if (in->size == 0)
    return 0;
  in->size--;
  return *in->data++;
}

static void send(const char *text, size_t length)
{
  json_t *chunk = json_pack("{s:[{s:i, s:s%, s:n}]}", "choices", "index", 0, "text", text,
                            length, "finish_reason");
  assert(chunk != NULL && lls_utf8_is_valid(text, length));
  char *event = json_dumps(chunk, JSON_COMPACT);
  assert(event != NULL && strpbrk(event, "\r\n") == NULL);
  free(event);
  json_decref(chunk);
}

/* Stops are text of JSON, so they are valid UTF-8; ours are ASCII. */
static void read_stops(struct input *in, struct lls_stop_set *set)
{
  set->strings = calloc(MAX_STOPS, sizeof *set->strings);
  for (unsigned n = next(in) % (MAX_STOPS + 1); set->count < n; set->count++) {
    struct lls_stop_string *stop = &set->strings[set->count];
    stop->length = 1 + next(in) % 8;
    stop->text = malloc(stop->length);
    assert(stop->text != NULL);
    for (size_t i = 0; i < stop->length; i++)
      stop->text[i] = (char)(next(in) & 0x7f);
  }
}

static void check_no_stop(const struct lls_stop_set *set, const char *text, size_t length)
{
  for (size_t i = 0; i < set->count; i++)
    assert(memmem(text, length, set->strings[i].text, set->strings[i].length) == NULL);
}

/* Follows the front end's rule (core/api/events.c); returns the length of the sent
 * text. */
static size_t stream(const struct lls_tokenizer *tokenizer,
                     const struct lls_stop_set *set, struct input *in, char *text,
                     size_t room)
{
  struct lls_detokenizer detokenizer;
  size_t length = 0, ready = 0, at, which;
  lls_detokenizer_init(&detokenizer, tokenizer, false, true);
  while (in->size > 0 && length + 2 * lls_detokenizer_room(tokenizer) < room) {
    int32_t id = (int32_t)((next(in) | next(in) << 8) % lls_tokenizer_size(tokenizer));
    length += lls_detokenizer_push(&detokenizer, id, text + length);
    if (lls_stop_find(set, text + ready, length - ready, &at, &which)) {
      send(text + ready, at);
      return ready + at;
    }
    size_t held = lls_stop_hold(set, text + ready, length - ready);
    send(text + ready, length - held - ready);
    ready = length - held;
  }
  return ready;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct lls_tokenizer *tokenizer;
  static char text[1 << 16];
  struct input in = {data, size};
  struct lls_stop_set set = {0};
  if (tokenizer == NULL)
    assert(lls_tokenizer_load(fuzz_source("t/data/models/stories260K"), &tokenizer,
                              NULL) == 0);
  read_stops(&in, &set);
  check_no_stop(&set, text, stream(tokenizer, &set, &in, text, sizeof text));
  lls_stop_set_free(&set);
  return 0;
}
