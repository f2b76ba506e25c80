/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokenisers: how fast they are, and whether their time is linear in the text's length.
 *
 *   bench/tokenizer FOLDER FILE      encodes the first 1/16 MB to 1 MB of FILE and
 * decodes the tokens; prints the best of some runs in MB/s of wall time, for encoding
 * also of CPU time bench/tokenizer FOLDER --ids     reads a JSON string a line from
 * stdin; prints [ids, text decoded from them] for each
 *
 * tools/tokenizer_compare.py compares both with the reference library.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "core/model/model_text.h"

#define MOST (1u << 20)
#define RUNS 5

static void die(const char *what)
{
  fprintf(stderr, "bench/tokenizer: %s\n", what);
  exit(1);
}

static size_t decode(const struct lls_tokenizer *tokenizer, const int32_t *ids,
                     size_t count, char *text)
{
  struct lls_detokenizer stream;
  size_t length = 0;
  lls_detokenizer_init(&stream, tokenizer, false, false);
  for (size_t i = 0; i < count; i++)
    length += lls_detokenizer_push(&stream, ids[i], text + length);
  return length + lls_detokenizer_flush(&stream, text + length);
}

static int32_t *encode(const struct lls_tokenizer *tokenizer, const char *text,
                       size_t length, bool special, size_t *count)
{
  struct lls_error err = {0};
  int32_t *ids;
  if (lls_tokenizer_encode(tokenizer, text, length, special, &ids, count, &err) != 0)
    die(err.text);
  return ids;
}

/* ---- speed ---------------------------------------------------------------------- */

static void measure(const struct lls_tokenizer *tokenizer, const char *text,
                    size_t length)
{
  double encoding = 1e9, decoding = 1e9, cpu = 1e9;
  size_t count = 0;
  for (int run = 0; run < RUNS; run++) {
    double c0 = bench_cpu_seconds(), t0 = bench_seconds();
    int32_t *ids = encode(tokenizer, text, length, false, &count);
    double t1 = bench_seconds(), c1 = bench_cpu_seconds();
    char *out = malloc((count + 1) * lls_detokenizer_room(tokenizer));
    if (out == NULL)
      die("out of memory");
    double t2 = bench_seconds();
    decode(tokenizer, ids, count, out);
    double t3 = bench_seconds();
    encoding = t1 - t0 < encoding ? t1 - t0 : encoding;
    cpu = c1 - c0 < cpu ? c1 - c0 : cpu;
    decoding = t3 - t2 < decoding ? t3 - t2 : decoding;
    free(out);
    free(ids);
  }
  printf("%8zu bytes %8zu tokens  encode %7.2f ms %7.2f MB/s (CPU %6.2f)  decode %7.2f "
         "MB/s\n",
         length, count, encoding * 1e3, (double)length / encoding / 1e6,
         (double)length / cpu / 1e6, (double)length / decoding / 1e6);
}

static void speed(const struct lls_tokenizer *tokenizer, const char *path)
{
  static char text[MOST];
  FILE *file = fopen(path, "rb");
  if (file == NULL)
    die("cannot open the text");
  size_t length = fread(text, 1, sizeof text, file);
  fclose(file);
  for (size_t n = length / 16; n > 0 && n <= length; n *= 2)
    measure(tokenizer, text, n);
}

/* ---- ids ------------------------------------------------------------------------ */

static void answer(const struct lls_tokenizer *tokenizer, const json_t *line)
{
  size_t count;
  int32_t *ids =
      encode(tokenizer, json_string_value(line), json_string_length(line), true, &count);
  char *text = malloc((count + 1) * lls_detokenizer_room(tokenizer));
  if (text == NULL)
    die("out of memory");
  size_t length = decode(tokenizer, ids, count, text);
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(list, json_integer(ids[i]));
  json_t *both = json_pack("[o, s%]", list, text, length);
  json_dumpf(both, stdout, JSON_COMPACT);
  putchar('\n');
  json_decref(both);
  free(text);
  free(ids);
}

static void print_ids(const struct lls_tokenizer *tokenizer)
{
  json_t *line;
  int flags = JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY | JSON_ALLOW_NUL;
  while ((line = json_loadf(stdin, flags, NULL)) != NULL) {
    answer(tokenizer, line);
    json_decref(line);
  }
}

int main(int argc, char **argv)
{
  struct lls_tokenizer *tokenizer;
  struct lls_error err = {0};
  if (argc != 3)
    die("usage: bench/tokenizer FOLDER FILE|--ids");
  if (lls_model_tokenizer(argv[1], &tokenizer, &err) != 0)
    die(err.text);
  if (strcmp(argv[2], "--ids") == 0)
    print_ids(tokenizer);
  else
    speed(tokenizer, argv[2]);
  lls_tokenizer_free(tokenizer);
  return 0;
}
