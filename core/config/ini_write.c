/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a file's entries as a file again, for a process that is to read what this one
 * has read, whatever happens to the original. Entries stand in the lines of the original,
 * so that messages name those. The new file replaces an older one at once.
 */
#include "core/config/ini.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

/* Writes an entry after the empty lines before it. Returns the number of its line. */
static unsigned write_entry(FILE *file, const struct lls_ini_entry *entry, unsigned line)
{
  for (; line + 1 < entry->line; line++)
    fputc('\n', file);
  if (entry->key == NULL)
    fprintf(file, "[%s]\n", entry->section);
  else
    fprintf(file, "%s = %s\n", entry->key, entry->value);
  return line + 1;
}

int lls_ini_write(const struct lls_ini *ini, const char *path)
{
  char temporary[PATH_MAX];
  unsigned line = 0;
  if ((size_t)snprintf(temporary, sizeof temporary, "%s.new", path) >= sizeof temporary)
    return -ENAMETOOLONG;
  FILE *file = fopen(temporary, "we");
  if (file == NULL)
    return -errno;
  for (size_t i = 0; i < ini->n; i++)
    if (ini->entries[i].line < LLS_INI_CHANGED)
      line = write_entry(file, &ini->entries[i], line);
  bool failed = ferror(file) != 0;
  failed |= fclose(file) != 0;
  int rc = failed ? -EIO : rename(temporary, path) < 0 ? -errno : 0;
  if (rc < 0)
    unlink(temporary);
  return rc;
}
