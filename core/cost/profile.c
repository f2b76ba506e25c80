/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes profiles as INI files; tables describe their keys. */
#include "core/cost/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/ini.h"
#include "core/params/nearest.h"
#include "core/params/params.h"

typedef struct lls_profile_device device;
static const struct lls_param device_params[] = {
    LLS_PARAM_STRING(device, name, "", "name of the device"),
    LLS_PARAM_BYTES(device, memory, NULL, 1 << 20, 1e15, "its memory",
                    .flags = LLS_PARAM_REQUIRED),
    LLS_PARAM_FLOAT(device, bandwidth, NULL, 1e-3, 1e6, "GB/s",
                    "what its memory delivers", .flags = LLS_PARAM_REQUIRED),
    LLS_PARAM_FLOAT(device, matrix, NULL, 1e-6, 1e6, "TFLOP/s",
                    "dense matrix products in the model's type",
                    .flags = LLS_PARAM_REQUIRED),
};

typedef struct lls_profile_link link;
static const struct lls_param link_params[] = {
    LLS_PARAM_FLOAT(link, bandwidth, "0", 0, 1e6, "GB/s",
                    "in one direction; 0 is no such link"),
    LLS_PARAM_DURATION(link, latency, "0", 0, 10e9, "of each transfer"),
};

typedef struct lls_profile_disk disk;
static const struct lls_param disk_params[] = {
    LLS_PARAM_FLOAT(disk, read, "0", 0, 1e6, "GB/s",
                    "at which blocks of [cache] disk_space are read; 0 is no disk"),
    LLS_PARAM_FLOAT(disk, write, "0", 0, 1e6, "GB/s", "at which they are written"),
    LLS_PARAM_DURATION(disk, latency, "0", 0, 10e9, "of each block"),
};

typedef struct lls_profile_efficiency efficiency;
static const struct lls_param efficiency_params[] = {
    LLS_PARAM_FLOAT(efficiency, memory, "0.9", LLS_PROFILE_LEAST_MEMORY, 1, "",
                    "share of the memory for weights, buffers and cache"),
    LLS_PARAM_FLOAT(efficiency, matrix, "0.6", 1e-6, 1, "",
                    "share of the matrix peak that large products reach"),
    LLS_PARAM_FLOAT(efficiency, prefill_attention, "0.4", 1e-6, 1, "",
                    "share of the matrix peak that attention over a prompt reaches"),
    LLS_PARAM_FLOAT(efficiency, weights, "0.8", 1e-6, 1, "",
                    "share of the bandwidth at which weights are read"),
    LLS_PARAM_FLOAT(efficiency, cache, "0.6", 1e-6, 1, "",
                    "share of the bandwidth at which cached keys and values are read"),
    LLS_PARAM_FLOAT(efficiency, one_sequence, "1", 1e-6, 1, "",
                    "part of 'cache' that a single sequence reaches alone"),
    LLS_PARAM_FLOAT(efficiency, tail, "0", 0, 1, "",
                    "part of the longest sequence's time that follows all others"),
    LLS_PARAM_FLOAT(efficiency, restore, "1", 1e-3, 1e6, "",
                    "how much faster keys and values are restored from hidden form than "
                    "products of as many rows are"),
    LLS_PARAM_FLOAT(efficiency, absorb, "0", 0, 1, "",
                    "share of the matrix peak that attention over hidden form itself "
                    "reaches; 0: this device restores keys and values always"),
};

typedef struct lls_profile_overhead overhead;
static const struct lls_param overhead_params[] = {
    LLS_PARAM_DURATION(overhead, step, "0", 0, 10e9, "fixed time of a step"),
    LLS_PARAM_DURATION(overhead, layer, "0", 0, 1e9, "time per layer of a step"),
    LLS_PARAM_DURATION(overhead, sequence, "0", 0, 1e9, "time per sequence of a step"),
    LLS_PARAM_DURATION(overhead, row, "0", 0, 1e9, "time per token computed"),
    LLS_PARAM_DURATION(overhead, token, "0", 0, 1e9, "time per token sampled"),
};

struct curve_text {
  const char *rows, *ns_per_million;
};
static const struct lls_param curve_params[] = {
    LLS_PARAM_STRING(struct curve_text, rows, "", "rows of each measured point"),
    LLS_PARAM_STRING(struct curve_text, ns_per_million, "",
                     "nanoseconds that a million weights took at each point"),
};

#define TABLE(PARAMS, STRUCT)                                                            \
  {                                                                                      \
    .params = PARAMS, .n = sizeof PARAMS / sizeof *PARAMS, .size = sizeof(STRUCT)        \
  }

static const struct section {
  const char *name;
  struct lls_param_table table;
  size_t offset; /* offset in struct lls_profile */
} sections[] = {
    {"device", TABLE(device_params, device), offsetof(struct lls_profile, device)},
    {"host_link", TABLE(link_params, link), offsetof(struct lls_profile, host_link)},
    {"peer_link", TABLE(link_params, link), offsetof(struct lls_profile, peer_link)},
    {"disk", TABLE(disk_params, disk), offsetof(struct lls_profile, disk)},
    {"efficiency", TABLE(efficiency_params, efficiency),
     offsetof(struct lls_profile, efficiency)},
    {"overhead", TABLE(overhead_params, overhead),
     offsetof(struct lls_profile, overhead)},
};
#define N_SECTIONS (sizeof sections / sizeof *sections)

static const struct lls_param_table curve_table = TABLE(curve_params, struct curve_text);

/* ---- reading ----------------------------------------------------------------------- */

struct reading {
  const char *path;
  struct lls_ini ini;
  struct lls_error *err;
  bool complained; /* err already has the sentence about a malformed line */
};

static void complain(void *context, unsigned line, const char *sentence)
{
  struct reading *r = context;
  if (!r->complained)
    lls_fail(r->err, -EINVAL, "%s:%u: %s", r->path, line, sentence);
  r->complained = true;
}

static const struct lls_param_table *find_table(const char *section)
{
  for (size_t i = 0; i < N_SECTIONS; i++)
    if (strcmp(section, sections[i].name) == 0)
      return &sections[i].table;
  return strcmp(section, "projection") == 0 ? &curve_table : NULL;
}

/* Checks that the section and the key exist, and that neither occurs twice. */
static int check_entry(const struct reading *r, const struct lls_ini_entry *entry)
{
  const struct lls_param_table *table = find_table(entry->section);
  struct lls_nearest nearest = {.word = entry->section};
  char clause[LLS_NEAREST_CLAUSE];
  if (table == NULL) {
    for (size_t i = 0; i < N_SECTIONS; i++)
      lls_nearest_offer(&nearest, sections[i].name);
    lls_nearest_offer(&nearest, "projection");
    return lls_fail(r->err, -EINVAL, "%s:%u: unknown section [%s] of a profile%s",
                    r->path, entry->line, entry->section,
                    lls_nearest_clause(&nearest, "[]", clause));
  }
  if (lls_ini_find(&r->ini, entry->section, entry->key) != entry)
    return lls_fail(r->err, -EINVAL, "%s:%u: [%s] %s occurs twice", r->path, entry->line,
                    entry->section, entry->key != NULL ? entry->key : "");
  if (entry->key == NULL || lls_param_find(table, entry->key) != NULL)
    return 0;
  nearest.word = entry->key;
  for (size_t i = 0; i < table->n; i++)
    lls_nearest_offer(&nearest, table->params[i].name);
  return lls_fail(r->err, -EINVAL, "%s:%u: unknown key '%s' in [%s]%s", r->path,
                  entry->line, entry->key, entry->section,
                  lls_nearest_clause(&nearest, "''", clause));
}

static int bind(const struct reading *r, const char *section,
                const struct lls_param_table *table, void *values)
{
  int rc = lls_params_default(table, NULL, values, r->err);
  for (size_t i = 0; rc == 0 && i < table->n; i++) {
    const struct lls_param *p = &table->params[i];
    const struct lls_ini_entry *entry = lls_ini_find(&r->ini, section, p->name);
    if (entry != NULL) {
      rc = lls_param_bind(p, entry->value, NULL, values, r->err);
      if (rc < 0)
        lls_fail_at(r->err, rc, "%s:%u: [%s] %s", r->path, entry->line, section, p->name);
    } else if (p->flags & LLS_PARAM_REQUIRED) {
      const struct lls_ini_entry *first = lls_ini_find(&r->ini, section, NULL);
      rc = lls_fail(r->err, -EINVAL, "%s:%u: [%s] needs the key '%s': %s", r->path,
                    first != NULL ? first->line : 1, section, p->name, p->sentence);
    }
  }
  if (rc < 0)
    lls_params_release(table, values);
  return rc;
}

/* Reads positive numbers separated by blanks or commas. Returns their number, or
 * -EINVAL. */
static int read_list(const char *text, double *out)
{
  int n = 0;
  for (text += strspn(text, " ,\t"); *text != '\0'; text += strspn(text, " ,\t")) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || !(value > 0 && value < 1e15) || n == LLS_PROFILE_POINTS)
      return -EINVAL;
    out[n++] = value;
    text = end;
  }
  return n;
}

static int check_curve(const struct reading *r, const struct curve_text *text,
                       struct lls_profile_curve *out)
{
  const struct lls_ini_entry *at = lls_ini_find(&r->ini, "projection", NULL);
  int rows = read_list(text->rows, out->rows);
  int times = read_list(text->ns_per_million, out->ns);
  if (rows < 0 || times < 0)
    return lls_fail(r->err, -EINVAL,
                    "%s:%u: [projection] expected at most %d numbers above 0 in each of "
                    "rows and ns_per_million",
                    r->path, at->line, LLS_PROFILE_POINTS);
  if (rows != times)
    return lls_fail(r->err, -EINVAL,
                    "%s:%u: [projection] has %d rows and %d times: expected one time for "
                    "each",
                    r->path, at->line, rows, times);
  for (int i = 1; i < rows; i++)
    if (out->rows[i] <= out->rows[i - 1])
      return lls_fail(
          r->err, -EINVAL,
          "%s:%u: [projection] rows: expected them in increasing order, found "
          "%g after %g",
          r->path, at->line, out->rows[i], out->rows[i - 1]);
  out->n = (uint32_t)rows;
  return 0;
}

static int bind_curve(const struct reading *r, struct lls_profile_curve *out)
{
  struct curve_text text;
  int rc = bind(r, "projection", &curve_table, &text);
  if (rc < 0)
    return rc;
  rc = check_curve(r, &text, out);
  lls_params_release(&curve_table, &text);
  return rc;
}

/* A disk that is read is written, too, in a time of its own. */
static int check_disk(const struct reading *r, const struct lls_profile_disk *d)
{
  const struct lls_ini_entry *at = lls_ini_find(&r->ini, "disk", NULL);
  if ((d->read > 0) == (d->write > 0))
    return 0;
  return lls_fail(r->err, -EINVAL,
                  "%s:%u: [disk] read and write: expected both above 0, or none", r->path,
                  at != NULL ? at->line : 1);
}

static int bind_all(const struct reading *r, struct lls_profile *out)
{
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < r->ini.n; i++)
    rc = check_entry(r, &r->ini.entries[i]);
  for (size_t i = 0; rc == 0 && i < N_SECTIONS; i++)
    rc = bind(r, sections[i].name, &sections[i].table, (char *)out + sections[i].offset);
  rc = rc == 0 ? check_disk(r, &out->disk) : rc;
  return rc == 0 ? bind_curve(r, &out->projection) : rc;
}

int lls_profile_read(const char *path, struct lls_profile *out, struct lls_error *err)
{
  *out = (struct lls_profile){0};
  struct lls_error unread;
  struct reading r = {.path = path, .err = err != NULL ? err : &unread};
  int rc = lls_ini_read(path, complain, &r, &r.ini, r.err);
  if (rc < 0)
    return rc;
  rc = r.complained ? -EINVAL : bind_all(&r, out);
  lls_ini_free(&r.ini);
  if (rc < 0)
    lls_profile_free(out);
  return rc;
}

void lls_profile_free(struct lls_profile *p)
{
  for (size_t i = 0; i < N_SECTIONS; i++)
    lls_params_release(&sections[i].table, (char *)p + sections[i].offset);
}

/* ---- writing ----------------------------------------------------------------------- */

static void write_value(FILE *f, const struct lls_param *p, const char *values)
{
  const char *member = values + p->offset;
  if (p->type == LLS_TYPE_STRING)
    fprintf(f, "%s = %s\n", p->name, *(const char *const *)member);
  else if (p->type == LLS_TYPE_FLOAT)
    fprintf(f, "%s = %.6g\n", p->name, *(const double *)member);
  else
    fprintf(f, "%s = %" PRId64 "%s\n", p->name, *(const int64_t *)member,
            p->type == LLS_TYPE_DURATION ? "ns" : "");
}

static void write_list(FILE *f, const char *name, const double *list, uint32_t n)
{
  fprintf(f, "%s =", name);
  for (uint32_t i = 0; i < n; i++)
    fprintf(f, " %.5g", list[i]);
  fputc('\n', f);
}

int lls_profile_write(const char *path, const struct lls_profile *profile,
                      const char *comment, struct lls_error *err)
{
  FILE *f = fopen(path, "we");
  if (f == NULL)
    return lls_fail(err, -errno, "%s: cannot write: %s", path, strerror(errno));
  fprintf(f, "; %s\n", comment);
  for (size_t i = 0; i < N_SECTIONS; i++) {
    fprintf(f, "\n[%s]\n", sections[i].name);
    for (size_t k = 0; k < sections[i].table.n; k++)
      write_value(f, &sections[i].table.params[k],
                  (const char *)profile + sections[i].offset);
  }
  const struct lls_profile_curve *curve = &profile->projection;
  if (curve->n > 0) {
    fprintf(f, "\n[projection]\n");
    write_list(f, "rows", curve->rows, curve->n);
    write_list(f, "ns_per_million", curve->ns, curve->n);
  }
  bool good = ferror(f) == 0;
  if (fclose(f) != 0 || !good)
    return lls_fail(err, -EIO, "%s: cannot write", path);
  return 0;
}
