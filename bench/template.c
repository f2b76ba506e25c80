/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chat templates: how long they take, and their text.
 *
 *   bench/template FILE     renders conversations of 2 to 32 messages with the template
 * in FILE; prints microseconds to compile and to render bench/template --text   reads one
 * {"source", "bos", "eos", "messages", "variables", "add_generation_prompt", "time"} a
 * line from stdin; prints
 *                           {"text"} or {"error", "compiled"} for each
 *
 * tools/template_compare.py compares the output of --text with Jinja's.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "text/template/template.h"

#define MOST (1u << 20)
#define RUNS 101

static void die(const char *what)
{
  fprintf(stderr, "bench/template: %s\n", what);
  exit(1);
}

/* ---- text ----------------------------------------------------------------------- */

static const char *string_of(const json_t *object, const char *member)
{
  return json_string_value(json_object_get(object, member));
}

static json_t *answer(const json_t *line)
{
  struct lls_error err = {0};
  struct lls_chat_template *chat_template = NULL;
  char *text = NULL;
  size_t length = 0;
  int rc = lls_chat_template_compile(string_of(line, "source"), string_of(line, "bos"),
                                     string_of(line, "eos"), &chat_template, &err);
  bool compiled = rc == 0;
  if (compiled)
    rc = lls_chat_template_render(
        chat_template, json_object_get(line, "messages"),
        json_object_get(line, "variables"),
        json_is_true(json_object_get(line, "add_generation_prompt")),
        json_integer_value(json_object_get(line, "time")), &text, &length, &err);
  json_t *said = rc == 0
                     ? json_pack("{s:s%}", "text", text, length)
                     : json_pack("{s:s, s:b}", "error", err.text, "compiled", compiled);
  free(text);
  lls_chat_template_free(chat_template);
  return said;
}

static void print_texts(void)
{
  json_t *line;
  while ((line = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
    json_t *said = answer(line);
    json_dumpf(said, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(said);
    json_decref(line);
  }
}

/* ---- time ----------------------------------------------------------------------- */

static json_t *conversation(size_t n)
{
  json_t *messages = json_array();
  for (size_t i = 0; i < n; i++)
    json_array_append_new(
        messages,
        json_pack("{s:s, s:s}", "role", i % 2 == 0 ? "user" : "assistant", "content",
                  "Once upon a time there was a little girl named Lily, who liked to "
                  "play outside in the sunshine with her friend the dog."));
  return messages;
}

static void measure(const struct lls_chat_template *chat_template, size_t n)
{
  double took[RUNS];
  struct lls_error err = {0};
  size_t length = 0;
  json_t *messages = conversation(n);
  for (int run = 0; run < RUNS; run++) {
    char *text;
    double t0 = bench_seconds();
    if (lls_chat_template_render(chat_template, messages, NULL, true, 0, &text, &length,
                                 &err) < 0)
      die(err.text);
    took[run] = bench_seconds() - t0;
    free(text);
  }
  printf("%4zu messages %6zu bytes  render %8.1f us\n", n, length,
         bench_median(took, RUNS) * 1e6);
  json_decref(messages);
}

static void speed(const char *path)
{
  static char source[MOST];
  struct lls_error err = {0};
  struct lls_chat_template *chat_template;
  FILE *file = fopen(path, "rb");
  if (file == NULL)
    die("cannot open the template");
  source[fread(source, 1, sizeof source - 1, file)] = '\0';
  fclose(file);
  double t0 = bench_seconds();
  if (lls_chat_template_compile(source, "<s>", "</s>", &chat_template, &err) < 0)
    die(err.text);
  printf("%s: compile %.1f us\n", path, (bench_seconds() - t0) * 1e6);
  for (size_t n = 2; n <= 32; n *= 4)
    measure(chat_template, n - 1);
  lls_chat_template_free(chat_template);
}

int main(int argc, char **argv)
{
  if (argc != 2)
    die("usage: bench/template FILE|--text");
  if (strcmp(argv[1], "--text") == 0)
    print_texts();
  else
    speed(argv[1]);
  return 0;
}
