/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vocabularies of other projects, which are not part of this tree. The variable
 * LLS_VOCABULARIES names a folder of files X.gguf, X.gguf.inp (texts, with a line
 * __ggml_vocab_test__ between them) and X.gguf.out (the ids of each on a line), such as
 * models/ in the sources of llama.cpp. Each tokeniser has the same ids, or is refused
 * by its name.
 */
#include "t/tap.h"

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/model/model_text.h"

#include <errno.h>
#include <glob.h>
#include <string.h>

#define END "\n__ggml_vocab_test__\n"

static char *read_beside(const char *path, const char *suffix)
{
  char name[4096];
  size_t length = 0;
  char *content = NULL;
  snprintf(name, sizeof name, "%s%s", path, suffix);
  FILE *file = fopen(name, "r");
  if (file == NULL)
    return NULL;
  assert_true(getdelim(&content, &length, '\0', file) > 0);
  fclose(file);
  return content;
}

/* The ids as the files have them: a space before each. */
static void encode(const struct lls_tokenizer *tokenizer, const char *text, size_t length,
                   struct lls_text *line)
{
  int32_t *ids = NULL;
  size_t count = 0;
  assert_int_equal(
      lls_tokenizer_encode(tokenizer, text, length, false, &ids, &count, NULL), 0);
  lls_text_clear(line);
  for (size_t i = 0; i < count; i++)
    lls_text_printf(line, " %d", ids[i]);
  free(ids);
}

/* Counts texts whose ids differ from `want`. */
static int count_wrong(const struct lls_tokenizer *tokenizer, const char *texts,
                       const char *want, int *n)
{
  struct lls_text line = {0};
  int wrong = 0;
  for (const char *text = texts, *end; *want != '\0'; text = end + strlen(END), (*n)++) {
    size_t length = strcspn(want, "\n");
    end = strstr(text, END);
    if (end == NULL)
      break;
    encode(tokenizer, text, (size_t)(end - text), &line);
    if (line.length != length || (length > 0 && memcmp(line.data, want, length) != 0)) {
      wrong++;
      print_message("\"%.*s\"\n  is  %.*s\n  not %.*s\n", (int)(end - text), text,
                    (int)line.length, line.data != NULL ? line.data : "", (int)length,
                    want);
    }
    want += length + (want[length] == '\n');
  }
  lls_text_free(&line);
  return wrong;
}

static bool is_right(const char *path)
{
  struct lls_tokenizer *tokenizer;
  struct lls_error err = {0};
  int n = 0, wrong = 0;
  int rc = lls_model_tokenizer(path, &tokenizer, &err);
  if (rc < 0) {
    print_message("%s: %s\n", path, err.text);
    return rc == -ENOTSUP;
  }
  char *texts = read_beside(path, ".inp"), *want = read_beside(path, ".out");
  if (texts != NULL && want != NULL)
    wrong = count_wrong(tokenizer, texts, want, &n);
  print_message("%s: %d texts, %d differ\n", path, n, wrong);
  free(want);
  free(texts);
  lls_tokenizer_free(tokenizer);
  return wrong == 0;
}

static void test_vocabularies_of_others(void **state)
{
  const char *folder = getenv("LLS_VOCABULARIES");
  char pattern[4096];
  glob_t files;
  bool right = true;
  (void)state;
  if (folder == NULL)
    skip_because("LLS_VOCABULARIES names no folder of X.gguf, X.gguf.inp and X.gguf.out");
  snprintf(pattern, sizeof pattern, "%s/*.gguf", folder);
  assert_int_equal(glob(pattern, 0, NULL, &files), 0);
  for (size_t i = 0; i < files.gl_pathc; i++)
    right = is_right(files.gl_pathv[i]) && right;
  globfree(&files);
  assert_true(right);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vocabularies_of_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
