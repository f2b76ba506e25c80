/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inih passes neither line numbers nor empty sections to its handler, and returns only
 * the place of the first bad line. The reader in this file supplies all three. inih
 * gets its lines one by one through it: it counts lines, notes section lines itself,
 * and checks at each line whether inih understood the previous one.
 *
 * inih ends a key at '=' or ':'. In sections whose keys are names of models or adapters
 * "qwen3:0.6b = PATH" names qwen3:0.6b, as Ollama does: such a ':' is passed through inih
 * as another byte.
 */
#include "core/config/ini.h"

#include "core/base/file.h"

#include <ini.h>

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* inih silently cuts longer names of sections and keys. */
#define NAME_MAX_LENGTH 49

#define COLON '\x01' /* stands for the ':' of a name */

/* Far above the number of keys that exist, and small enough for a linear search. */
#define MAX_ENTRIES 2000
#define MAX_BYTES   (1 << 20)

struct reading {
  FILE *file;
  struct lls_ini *ini;
  lls_ini_complain complain;
  void *context;
  unsigned line; /* number of the line that inih is reading */
  /* blank, comment, section, complained about, or passed to the handler */
  bool understood;
  bool has_names; /* the section's keys are names of models or adapters */
  bool no_memory;
  bool full;
};

static void complain(struct reading *r, const char *sentence)
{
  r->complain(r->context, r->line, sentence);
  r->understood = true;
}

static int append(struct lls_ini *ini, unsigned line, const char *section,
                  const char *key, const char *value)
{
  struct lls_ini_entry *grown =
      realloc(ini->entries, (ini->n + 1) * sizeof *ini->entries);
  if (grown == NULL)
    return -ENOMEM;
  ini->entries = grown;
  struct lls_ini_entry *entry = &grown[ini->n++];
  *entry = (struct lls_ini_entry){.section = strdup(section), .line = line};
  if (key != NULL) {
    entry->key = strdup(key);
    entry->value = strdup(value);
  }
  bool whole = entry->section != NULL &&
               (key == NULL || (entry->key != NULL && entry->value != NULL));
  return whole ? 0 : -ENOMEM;
}

static void add_entry(struct reading *r, const char *section, const char *key,
                      const char *value)
{
  r->full = r->ini->n == MAX_ENTRIES;
  if (r->full)
    complain(r, "more than 2000 sections and keys; from here on nothing was read");
  else if (append(r->ini, r->line, section, key, value) < 0)
    r->no_memory = true;
}

static int on_pair(void *context, const char *section, const char *key, const char *value)
{
  struct reading *r = context;
  char name[NAME_MAX_LENGTH];
  r->understood = true;
  if (strlen(key) >= sizeof name) {
    complain(r, "a key of more than 48 characters; none is that long");
    return 1;
  }
  snprintf(name, sizeof name, "%s", key);
  for (char *at = name; (at = strchr(at, COLON)) != NULL;)
    *at = ':';
  add_entry(r, section, name, value);
  return 1;
}

/* Hides the ':' of a line like "NAME:TAG = PATH", without blanks in the name, from
 * inih. */
static void hide_colons(char *line)
{
  size_t name = strcspn(line, "= \t\r\n");
  const char *rest = line + name + strspn(line + name, " \t");
  if (*rest != '=' || line[0] == ':' || line[name - (name > 0)] == ':')
    return;
  for (size_t i = 0; i < name; i++)
    line[i] = line[i] == ':' ? COLON : line[i];
}

/* True if there is a comment before a bracket, as inih finds it: a ';' after a blank. */
static bool has_comment(const char *text, size_t length)
{
  for (size_t i = 1; i < length; i++)
    if (text[i] == ';' && isspace((unsigned char)text[i - 1]))
      return true;
  return false;
}

static void note_section(struct reading *r, const char *text)
{
  size_t length = strcspn(text, "]");
  if (text[length] != ']' || has_comment(text, length))
    return; /* inih does not accept this line either */
  if (length >= NAME_MAX_LENGTH) {
    complain(r, "a section name of more than 48 characters; none is that long");
    return;
  }
  char name[NAME_MAX_LENGTH + 1];
  snprintf(name, sizeof name, "%.*s", (int)length, text);
  r->understood = true;
  r->has_names = strcmp(name, "models") == 0 || strcmp(name, "lora") == 0 ||
                 strncmp(name, "model.", strlen("model.")) == 0;
  add_entry(r, name, NULL, NULL);
}

static void end_line(struct reading *r)
{
  if (!r->understood)
    complain(r, "expected 'key = value', '[section]' or a comment");
}

/* Checks a line before inih parses it; returns where it begins. */
static char *look_at_line(struct reading *r, char *line)
{
  if (r->line == 1 && strncmp(line, "\xEF\xBB\xBF", 3) == 0)
    line += 3;
  line += strspn(line, " \t");
  r->understood = line[strspn(line, " \t\r\n")] == '\0' || *line == ';' || *line == '#';
  if (*line == '[')
    note_section(r, line + 1);
  else if (r->has_names && !r->understood)
    hide_colons(line);
  return line;
}

/* Reads a line for inih like fgets. A line that is too long is complained about, and
 * inih gets a blank line instead. */
static char *next_line(char *buffer, int size, void *context)
{
  struct reading *r = context;
  if (r->line > 0)
    end_line(r);
  if (r->full || fgets(buffer, size, r->file) == NULL)
    return NULL;
  r->line++;
  if (strchr(buffer, '\n') == NULL && !feof(r->file)) {
    char sentence[96];
    snprintf(sentence, sizeof sentence, "a line of more than %d bytes; make it shorter",
             size - 2);
    complain(r, sentence);
    for (int c = 0; c != '\n' && c != EOF;)
      c = fgetc(r->file);
    buffer[0] = '\0';
    return buffer;
  }
  char *start = look_at_line(r, buffer);
  memmove(buffer, start, strlen(start) + 1);
  return buffer;
}

int lls_ini_read(const char *path, lls_ini_complain complain_to, void *context,
                 struct lls_ini *out, struct lls_error *err)
{
  *out = (struct lls_ini){.path = strdup(path)};
  struct reading r = {.ini = out, .complain = complain_to, .context = context};
  int rc = -ENOMEM;
  if (out->path == NULL)
    return lls_fail(err, rc, "%s: no memory", path);
  rc = lls_file_open(path, MAX_BYTES, &r.file, err);
  if (rc < 0)
    goto fail_open;
  ini_parse_stream(next_line, &r, on_pair, &r);
  if (ferror(r.file)) {
    rc = lls_fail(err, -EIO, "%s: cannot read: %s", path, strerror(errno));
    goto fail_read;
  }
  if (r.no_memory) {
    rc = lls_fail(err, -ENOMEM, "%s: no memory", path);
    goto fail_read;
  }
  fclose(r.file);
  return 0;

fail_read:
  fclose(r.file);
fail_open:
  lls_ini_free(out);
  return rc;
}

static void free_entry(struct lls_ini_entry *entry)
{
  free(entry->section);
  free(entry->key);
  free(entry->value);
}

void lls_ini_remove(struct lls_ini *ini, size_t i)
{
  free_entry(&ini->entries[i]);
  ini->n--;
  memmove(ini->entries + i, ini->entries + i + 1, (ini->n - i) * sizeof *ini->entries);
}

void lls_ini_free(struct lls_ini *ini)
{
  for (size_t i = 0; i < ini->n; i++)
    free_entry(&ini->entries[i]);
  free(ini->entries);
  free(ini->path);
  *ini = (struct lls_ini){0};
}

const struct lls_ini_entry *lls_ini_find(const struct lls_ini *ini, const char *section,
                                         const char *key)
{
  for (size_t i = 0; i < ini->n; i++) {
    const struct lls_ini_entry *e = &ini->entries[i];
    if (strcmp(e->section, section) != 0)
      continue;
    if (key == NULL ? e->key == NULL : e->key != NULL && strcmp(e->key, key) == 0)
      return e;
  }
  return NULL;
}

int lls_ini_set(struct lls_ini *ini, unsigned line, const char *section, const char *key,
                const char *value)
{
  struct lls_ini_entry *entry = (struct lls_ini_entry *)lls_ini_find(ini, section, key);
  if (entry == NULL)
    return lls_ini_find(ini, section, NULL) == NULL &&
                   append(ini, line, section, NULL, NULL) < 0
               ? -ENOMEM
               : append(ini, line, section, key, value);
  char *copy = strdup(value);
  if (copy == NULL)
    return -ENOMEM;
  free(entry->value);
  entry->value = copy;
  entry->line = line;
  return 0;
}
