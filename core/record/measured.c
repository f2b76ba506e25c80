/* SPDX-License-Identifier: Apache-2.0 */
/* See measured.h. */
#include "config.h"

#include "core/record/measured.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/config/ini.h"

/* ---- identity ---------------------------------------------------------------------- */

enum { FACTS = 4 };

struct fact {
  const char *name, *text;
};

static void facts_of(const struct lls_engine_fingerprint *id, struct fact out[FACTS])
{
  out[0] = (struct fact){"version", PACKAGE_VERSION};
  out[1] = (struct fact){"device", id->device};
  out[2] = (struct fact){"model", id->model};
  out[3] = (struct fact){"engine", id->engine};
}

/* FNV-1a of everything but the version, so that another version of llmserve replaces
 * the file. */
static uint64_t number_of(const struct lls_engine_fingerprint *id)
{
  struct fact facts[FACTS];
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  facts_of(id, facts);
  for (int i = 1; i < FACTS; i++)
    for (const char *c = facts[i].text;; c++) {
      hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
      if (*c == '\0')
        break;
    }
  return hash;
}

int lls_measured_path(const char *folder, const struct lls_engine_fingerprint *id,
                      char *path, size_t size)
{
  int n = snprintf(path, size, "%s/hidden-%016" PRIx64 ".ini", folder, number_of(id));
  return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

/* ---- reading ----------------------------------------------------------------------- */

static int check_identity(const struct lls_ini *ini,
                          const struct lls_engine_fingerprint *id, struct lls_error *err)
{
  struct fact facts[FACTS];
  facts_of(id, facts);
  for (int i = 0; i < FACTS; i++) {
    const struct lls_ini_entry *e = lls_ini_find(ini, "identity", facts[i].name);
    const char *text = e != NULL ? e->value : "";
    if (strcmp(text, facts[i].text) != 0)
      return lls_fail(err, -ESTALE, "%s: measured with %s '%s', this is '%s'", ini->path,
                      facts[i].name, text, facts[i].text);
  }
  return 0;
}

static int bad_line(const struct lls_ini *ini, unsigned line, struct lls_error *err)
{
  return lls_fail(
      err, -EINVAL,
      "%s:%u: expected 'KV CONTEXT = NS' or 'hidden CONTEXT = NS', at most %d "
      "of them",
      ini->path, line, LLS_MEASURED_STEPS);
}

static bool read_number(const char *text, int64_t least, int64_t most, int64_t *out)
{
  char *end;
  errno = 0;
  *out = strtoll(text, &end, 10);
  return end != text && *end == '\0' && errno == 0 && *out >= least && *out <= most;
}

static bool read_step(const struct lls_ini_entry *e, struct lls_measured_step *out)
{
  static const char *const forms[] = {"KV ", "hidden "};
  for (int hidden = 0; hidden < 2; hidden++) {
    size_t n = strlen(forms[hidden]);
    int64_t context;
    if (strncmp(e->key, forms[hidden], n) != 0)
      continue;
    out->hidden = hidden;
    if (!read_number(e->key + n, 1, UINT32_MAX, &context))
      return false;
    out->context = (uint32_t)context;
    return read_number(e->value, 1, INT64_MAX, &out->ns);
  }
  return false;
}

static int read_steps(const struct lls_ini *ini, struct lls_measured *out,
                      struct lls_error *err)
{
  bool forms[2] = {false, false};
  out->n = 0;
  for (size_t i = 0; i < ini->n; i++) {
    const struct lls_ini_entry *e = &ini->entries[i];
    if (e->key == NULL || strcmp(e->section, "steps") != 0)
      continue;
    if (out->n == LLS_MEASURED_STEPS || !read_step(e, &out->steps[out->n]))
      return bad_line(ini, e->line, err);
    forms[out->steps[out->n++].hidden] = true;
  }
  if (!forms[0] || !forms[1])
    return lls_fail(err, -EINVAL, "%s: expected steps in both forms", ini->path);
  return 0;
}

static void ignore_line(void *context, unsigned line, const char *sentence)
{
  (void)sentence;
  if (*(unsigned *)context == 0)
    *(unsigned *)context = line;
}

int lls_measured_read(const char *path, const struct lls_engine_fingerprint *id,
                      struct lls_measured *out, struct lls_error *err)
{
  struct lls_ini ini;
  unsigned bad = 0;
  int rc = lls_ini_read(path, ignore_line, &bad, &ini, err);
  if (rc < 0)
    return rc;
  rc = bad > 0 ? bad_line(&ini, bad, err) : check_identity(&ini, id, err);
  if (rc == 0)
    rc = read_steps(&ini, out, err);
  lls_ini_free(&ini);
  return rc;
}

/* ---- writing ----------------------------------------------------------------------- */

static bool write_all(FILE *f, const struct lls_engine_fingerprint *id,
                      const struct lls_measured *m)
{
  struct fact facts[FACTS];
  facts_of(id, facts);
  fputs(
      "; What hidden form costs here, measured by llmserve before serving. Without this\n"
      "; file, or with [cache] measure = always, it is measured again.\n\n[identity]\n",
      f);
  for (int i = 0; i < FACTS; i++)
    fprintf(f, "%s = %s\n", facts[i].name, facts[i].text);
  fputs("\n[steps]\n", f);
  for (uint32_t i = 0; i < m->n; i++)
    fprintf(f, "%s %" PRIu32 " = %" PRId64 "\n", m->steps[i].hidden ? "hidden" : "KV",
            m->steps[i].context, m->steps[i].ns);
  return ferror(f) == 0;
}

static void make_folder_of(const char *path)
{
  char copy[PATH_MAX];
  if (snprintf(copy, sizeof copy, "%s", path) < (int)sizeof copy)
    mkdir(dirname(copy), 0755); /* fopen reports the failure */
}

int lls_measured_write(const char *path, const struct lls_engine_fingerprint *id,
                       const struct lls_measured *m, struct lls_error *err)
{
  char new[PATH_MAX];
  if (snprintf(new, sizeof new, "%s.new", path) >= (int)sizeof new)
    return lls_fail(err, -ENAMETOOLONG, "%s: too long for a path", path);
  make_folder_of(path);
  FILE *f = fopen(new, "we");
  if (f == NULL)
    return lls_fail(err, -errno, "%s: cannot write: %s", new, strerror(errno));
  bool good = write_all(f, id, m);
  if (fclose(f) != 0 || !good || rename(new, path) < 0) {
    remove(new);
    return lls_fail(err, -EIO, "%s: cannot write", path);
  }
  return 0;
}
