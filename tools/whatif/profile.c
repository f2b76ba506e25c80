/* SPDX-License-Identifier: Apache-2.0 */
/* Finds or makes the profile of the server's device; see profile.h. */
#include "tools/whatif/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/cost/profile.h"
#include "tools/whatif/child.h"

#define MEASURED_TIME "20s"
#define A_DAY         86400 /* s */
#define FNV_BEGIN     UINT64_C(14695981039346656037)
#define FNV_PRIME     UINT64_C(1099511628211)

/* Simulated steps may be this many times as long as the served ones, or as short,
 * before the profile is considered wrong. The value is a guess: far above the noise of
 * a measurement, far below the errors seen (factors of 3 to 800). */
#define UNLIKE       1.5
#define FEWEST_STEPS 16
/* If a token's time still differs by this share after calibration (calibrate.h), the
 * difference is more than the time beyond the device's, and the profile is wrong. */
#define STILL_APART 0.25

__attribute__((format(printf, 2, 3))) static void say(struct profile *p,
                                                      const char *format, ...)
{
  char text[PATH_MAX + 512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "llmserve-whatif: %s\n", text);
  lls_text_printf(&p->said, "%s%s", p->said.length > 0 ? "; " : "", text);
}

/* ---- where it is kept -------------------------------------------------------------- */

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
  for (size_t i = 0; i < n; i++)
    hash = (hash ^ ((const unsigned char *)bytes)[i]) * FNV_PRIME;
  return hash;
}

static int hash_file(const char *path, uint64_t *hash, struct lls_error *err)
{
  char buffer[4096];
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return lls_fail(err, -errno,
                    "%s: cannot be read: %s; -c FILE names the configuration that is "
                    "served",
                    path, strerror(errno));
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;)
    *hash = hash_bytes(*hash, buffer, n);
  fclose(file);
  return 0;
}

struct kept {
  char measured[PATH_MAX], learnt[PATH_MAX], unfit[PATH_MAX];
};

static int find_kept(const char *config, struct kept *out, struct lls_error *err)
{
  char host[256] = "", folder[PATH_MAX - 64];
  uint64_t hash = FNV_BEGIN;
  int rc = hash_file(config, &hash, err);
  if (rc < 0)
    return rc;
  gethostname(host, sizeof host - 1);
  hash = hash_bytes(hash, host, strlen(host));
  rc = lls_file_kept_folder(folder, sizeof folder);
  if (rc < 0)
    return lls_fail(err, rc, "the user's cache folder: %s", strerror(-rc));
  const char *const form = "%s/profile-%016" PRIx64 "%s.ini";
  snprintf(out->measured, sizeof out->measured, form, folder, hash, "");
  snprintf(out->learnt, sizeof out->learnt, form, folder, hash, "-learnt");
  snprintf(out->unfit, sizeof out->unfit, form, folder, hash, "-unfit");
  return 0;
}

/* Does a profile exist that llmserve-sim accepts? One truncated by a full disk is
 * removed. */
static bool is_kept(struct profile *p, const char *path)
{
  struct lls_profile read;
  struct lls_error why = {0};
  if (access(path, R_OK) != 0)
    return false;
  if (lls_profile_read(path, &read, &why) < 0) {
    unlink(path);
    say(p, "the kept profile was none, and is removed: %s", why.text);
    return false;
  }
  lls_profile_free(&read);
  return true;
}

static bool is_of_today(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0 && time(NULL) - status.st_mtime < A_DAY;
}

/* ---- making one -------------------------------------------------------------------- */

/* Writes to another file first, so that no incomplete file remains. */
static int run_profiler(const struct running *running, const char *how, const char *what,
                        const char *path, struct lls_error *err)
{
  const struct child_limits no_limits = {0};
  char made[PATH_MAX + 8];
  snprintf(made, sizeof made, "%s.new", path);
  char *const arguments[] = {(char *)"llmserve-profile",
                             (char *)"--config",
                             running->config,
                             (char *)how,
                             (char *)what,
                             (char *)"--output",
                             made,
                             NULL};
  int rc = child_run(arguments, &no_limits, err);
  if (rc == 0 && rename(made, path) < 0)
    rc = lls_fail(err, -errno, "%s: cannot be written: %s", path, strerror(errno));
  if (rc < 0)
    unlink(made);
  return rc;
}

static int keep_path(struct profile *p, enum profile_origin origin, const char *path,
                     struct lls_error *err)
{
  free(p->path);
  p->path = strdup(path);
  p->origin = origin;
  return p->path != NULL ? 0 : lls_fail(err, -ENOMEM, "no memory");
}

static bool was_disturbed(const char *path)
{
  char line[512] = "";
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return false;
  bool disturbed =
      fgets(line, sizeof line, file) != NULL && strstr(line, "Disturbed:") != NULL;
  fclose(file);
  return disturbed;
}

static int measure(const struct running *running, const struct kept *k, struct profile *p,
                   struct lls_error *err)
{
  fprintf(stderr, "llmserve-whatif: measuring the device for %s, once; kept in %s\n",
          MEASURED_TIME, k->measured);
  int rc = run_profiler(running, "--time", MEASURED_TIME, k->measured, err);
  if (rc < 0)
    return rc;
  unlink(k->learnt);
  p->fresh = true;
  if (was_disturbed(k->measured))
    say(p, "other processes had the cores while the device was measured, twice: steps "
           "are taken to be longer than they are");
  return keep_path(p, PROFILE_MEASURED, k->measured, err);
}

static int learn(const struct running *running, const struct kept *k, struct profile *p,
                 struct lls_error *err)
{
  int rc = run_profiler(running, "--served", running->history, k->learnt, err);
  if (rc < 0 && !is_kept(p, k->learnt)) /* made for an earlier question */
    return rc;
  p->fresh = rc == 0;
  say(p, "what the device can do is learnt from the steps that the server has run%s",
      running->idle ? "" : "; it is measured when the server is idle");
  return keep_path(p, PROFILE_LEARNT, k->learnt, err);
}

static int unknown(const struct lls_error *why, struct lls_error *err)
{
  return lls_fail(err, -EBUSY,
                  "what the device can do is not known yet, and cannot be measured "
                  "while the server has requests (%s): ask again when it is idle, or "
                  "give --profile FILE (llmserve-profile writes one)",
                  why->text);
}

/* Measures the profile if the server is idle, else learns it. If today's measurement
 * proved wrong, learning is tried first. */
static int make(const struct running *running, const struct kept *k, struct profile *p,
                struct lls_error *err)
{
  struct lls_error unlearnt = {0};
  bool in_vain = is_of_today(k->unfit);
  if ((!running->idle || in_vain) && learn(running, k, p, &unlearnt) == 0)
    return 0;
  return running->idle ? measure(running, k, p, err) : unknown(&unlearnt, err);
}

/* ---- finding one ------------------------------------------------------------------- */

int profile_find(const struct whatif_options *o, const struct running *running,
                 struct profile *p, struct lls_error *err)
{
  struct kept k;
  const char *given = strcmp(o->profile, "auto") != 0 ? o->profile : running->profile;
  *p = (struct profile){.fits = true};
  if (given != NULL && given[0] != '\0')
    return keep_path(p, PROFILE_NAMED, given, err);
  int rc = find_kept(running->config, &k, err);
  if (rc < 0)
    return rc;
  return is_kept(p, k.measured) ? keep_path(p, PROFILE_MEASURED, k.measured, err)
                                : make(running, &k, p, err);
}

void profile_free(struct profile *p)
{
  free(p->path);
  json_decref(p->fit);
  lls_text_free(&p->said);
}

/* ---- does it fit? ------------------------------------------------------------------ */

void profile_judge(struct profile *p, const json_t *report, double apart)
{
  json_t *fit = json_object_get(json_object_get(report, "machine"), "served_steps");
  double times = json_number_value(json_object_get(fit, "times"));
  json_decref(p->fit);
  p->fit = json_incref(fit);
  p->fits = true;
  if (json_integer_value(json_object_get(fit, "steps")) < FEWEST_STEPS || !(times > 0))
    return;
  bool slow = times > UNLIKE, swift = times < 1 / UNLIKE;
  p->fits = !slow && !(swift && fabs(apart) > STILL_APART);
  double factor = slow ? times : 1 / times;
  if (!p->fits)
    say(p,
        "%s is not of the device that serves: its steps are %.*f times as %s as those "
        "that were run%s",
        p->path, factor < 10 ? 1 : 0, factor, slow ? "long" : "short",
        p->origin == PROFILE_NAMED ? "; name another, or none: it is measured then" : "");
}

/* Replaces a profile that was measured for this question by a learnt one, if the server
 * has run enough steps. */
static int replace_fresh(const struct running *running, const struct kept *k,
                         struct profile *p)
{
  struct lls_error why = {0};
  if (p->origin == PROFILE_LEARNT || learn(running, k, p, &why) < 0)
    return 0;
  rename(k->measured, k->unfit);
  say(p,
      "what was measured just now is not used for a day: other processes had the cores "
      "then, or the server runs with other settings than the file's");
  return 1;
}

int profile_replace(const struct running *running, struct profile *p,
                    struct lls_error *err)
{
  struct kept k;
  if (p->origin == PROFILE_NAMED || !running->here)
    return 0;
  int rc = find_kept(running->config, &k, err);
  if (rc < 0)
    return rc;
  if (p->fresh)
    return replace_fresh(running, &k, p);
  unlink(p->path);
  say(p, "it is removed");
  rc = make(running, &k, p, err);
  return rc < 0 ? lls_fail_at(err, rc, "the kept profile did not fit and is removed") : 1;
}

static const char *const origins[] = {[PROFILE_NAMED] = "named",
                                      [PROFILE_MEASURED] = "measured",
                                      [PROFILE_LEARNT] = "learnt"};

void profile_print(const struct profile *p)
{
  if (p->said.length > 0)
    printf("\nWhat the device can do: %s, %s\n%s.\n", origins[p->origin], p->path,
           p->said.data);
}

json_t *profile_json(const struct profile *p)
{
  json_t *out =
      json_pack("{s:s, s:s, s:b, s:s}", "file", p->path, "from", origins[p->origin],
                "fits", p->fits, "said", p->said.length > 0 ? p->said.data : "");
  if (p->fit != NULL)
    json_object_update(out, p->fit);
  return out;
}
