/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes llmserve.ini: it is read, checked and bound, or refused with at least one
 * error. The entries of a file without errors must equal inih's, except for indented
 * lines, which inih treats as continuations.
 */
#include <ini.h>

#include "core/config/config.h"
#include "core/config/ini.h"
#include "t/fuzz/fuzz.h"

/* ---- beside inih ------------------------------------------------------------------- */

struct comparison {
  const struct lls_ini *ini;
  size_t at; /* index of our next entry */
};

/* In our list a section is an entry, too. */
static int on_pair(void *context, const char *section, const char *key, const char *value)
{
  struct comparison *c = context;
  while (c->at < c->ini->n && c->ini->entries[c->at].key == NULL)
    c->at++;
  assert(c->at < c->ini->n);
  const struct lls_ini_entry *entry = &c->ini->entries[c->at++];
  assert(strcmp(entry->section, section) == 0);
  assert(strcmp(entry->key, key) == 0 && strcmp(entry->value, value) == 0);
  return 1;
}

static void count_complaint(void *context, unsigned line, const char *sentence)
{
  assert(line > 0 && sentence[0] != '\0');
  ++*(unsigned *)context;
}

/* The same lines without leading blanks. */
static char *without_indents(const uint8_t *data, size_t size, size_t *length)
{
  char *text = malloc(size + 1);
  bool begins = true;
  size_t n = 0;
  assert(text != NULL);
  if (size >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0) {
    data += 3;
    size -= 3;
  }
  for (size_t i = 0; i < size; i++) {
    begins = begins && (data[i] == ' ' || data[i] == '\t');
    if (!begins)
      text[n++] = (char)data[i];
    begins = begins || data[i] == '\n';
  }
  *length = n;
  return text;
}

static void compare(const char *path, const uint8_t *data, size_t size)
{
  struct lls_ini ini = {0};
  struct lls_error err = {0};
  unsigned complaints = 0;
  size_t length;
  int rc = lls_ini_read(path, count_complaint, &complaints, &ini, &err);
  assert(rc == 0 || err.text[0] != '\0');
  char *text = without_indents(data, size, &length);
  if (rc == 0 && complaints == 0 && length > 0 && memchr(data, '\0', size) == NULL) {
    struct comparison c = {.ini = &ini};
    FILE *file = fmemopen(text, length, "r");
    assert(file != NULL && ini_parse_file(file, on_pair, &c) == 0);
    while (c.at < ini.n && ini.entries[c.at].key == NULL)
      c.at++;
    assert(c.at == ini.n);
    fclose(file);
  }
  free(text);
  lls_ini_free(&ini);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct lls_config config;
  struct lls_config_errors errors = {0};
  const char *path = fuzz_file("llmserve.ini", data, size);
  compare(path, data, size);
  if (lls_config_load(path, &config, &errors) == 0)
    lls_config_free(&config);
  else
    assert(errors.n > 0 && errors.list[0].error.text[0] != '\0');
  lls_config_errors_free(&errors);
  fuzz_forget("llmserve.ini");
  return 0;
}
