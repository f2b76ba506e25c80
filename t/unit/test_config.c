/* SPDX-License-Identifier: Apache-2.0 */
/* Whole ini files: the values that they set, and the message for each error. */
#include "config.h"

#include "t/fixtures.h"
#include "t/folder.h"

#include "core/config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef LLS_CURL
#define HUB_ADVICE                                                                       \
  ": as a model at Hugging Face: the hub's cache (/nowhere/hub) does not have it; a "    \
  "start of llmserve without --no-download and HF_HUB_OFFLINE fetches it"
#else
#define HUB_ADVICE                                                                       \
  ": if that is a model at Hugging Face, download it first (hf download org/small "      \
  "--local-dir FOLDER) and name the folder"
#endif

#define GOOD_PLUGINS                                                                     \
  "[plugins]\nscheduler=good\ncache=good\npredictor=good\ndrafter=good\n"

/* Loads `text` from a folder that is a model folder, too. */
static int load(const struct folder *folder, const char *text, struct lls_config *config,
                struct lls_config_errors *errors)
{
  char path[128];
  snprintf(path, sizeof path, "%s/x.ini", folder->path);
  folder_write_text(folder, "x.ini", text);
  folder_write_text(folder, "config.json", "{}");
  *errors = (struct lls_config_errors){0};
  return lls_config_load(path, config, errors);
}

static void load_good(const struct folder *folder, const char *text,
                      struct lls_config *config)
{
  struct lls_config_errors errors;
  if (load(folder, text, config, &errors) < 0)
    fail_msg("%s", errors.list[0].error.text);
  assert_int_equal(errors.n, 0);
}

/* ---- what is right ---- */

/* Lines of `listen` add up; a setting of the command line replaces them all. */
static void test_lines_of_listen_add_up(void **state)
{
  const struct folder *folder = *state;
  const char *const setting = "server.listen=:1";
  static const char text[] =
      GOOD_PLUGINS "[server]\nlisten = :80, [::1]:0\nreplica = a\nlisten = unix:/run/x\n"
                   "[model]\npath = .\n";
  struct lls_config c;
  struct lls_config_errors errors = {0};
  char path[PATH_MAX];
  load_good(folder, text, &c);
  assert_string_equal(c.server.listen, ":80, [::1]:0, unix:/run/x");
  assert_string_equal(c.server.replica, "a");
  lls_config_free(&c);
  snprintf(path, sizeof path, "%s/x.ini", folder->path);
  assert_int_equal(lls_config_load_with(path, &setting, 1, &c, &errors), 0);
  assert_string_equal(c.server.listen, ":1");
  lls_config_free(&c);
  lls_config_errors_free(&errors);
}

static void test_listen_and_path_are_enough(void **state)
{
  const struct folder *folder = *state;
  struct lls_config c;
  load_good(folder, GOOD_PLUGINS "[server]\nlisten = [::1]:0\n[model]\npath = .\n", &c);
  assert_string_equal(c.server.listen, "[::1]:0");
  assert_int_equal(c.server.drain_timeout, 30 * LLS_NS_PER_S);
  assert_string_equal(c.server.served_model_name, strrchr(folder->path, '/') + 1);
  assert_int_equal(c.engine.isa, LLS_NEVER);
  assert_int_equal(c.cache.block_tokens, 16);
  assert_int_equal(c.cache.device_memory, LLS_NEVER);
  assert_int_equal(c.plugins.loop.plan_budget, 0);
  assert_string_equal(c.policies.scheduler.module->descriptor->id, "good");
  assert_int_equal(c.policies.cache.module->descriptor->kind, LLS_KIND_CACHE);
  assert_int_equal(c.policies.predictor.module->descriptor->kind, LLS_KIND_PREDICTOR);
  assert_int_equal(c.policies.drafter.module->descriptor->kind, LLS_KIND_DRAFTER);
  assert_int_equal(c.plugins.max_drafts, 7);
  assert_int_equal(c.plugins.loop.draft_budget, LLS_NEVER);
  lls_config_free(&c);
}

static void test_values_are_bound(void **state)
{
  struct lls_config c;
  load_good(*state,
            "\xEF\xBB\xBF; a byte order mark, comments, indentation, CRLF\r\n"
            "[server]\r\n  log_level = debug ; inline\r\n# another\r\n"
            "served_model_name = a name\r\n[model]\r\npath=.\r\nweights: int8\r\n"
            "[engine]\r\nthreads = 2\r\nisa = avx2\r\n" GOOD_PLUGINS
            "plan_budget = 2ms\r\n[cache]\r\ndevice_memory = 64MiB",
            &c);
  assert_int_equal(c.server.log_level, LLS_LOG_DEBUG);
  assert_string_equal(c.server.served_model_name, "a name");
  assert_int_equal(c.model.weights, 3);
  assert_int_equal(c.engine.threads, 2);
  assert_int_equal(c.engine.isa, 1);
  assert_int_equal(c.plugins.loop.plan_budget, 2000000);
  assert_int_equal(c.cache.device_memory, 64 << 20);
  lls_config_free(&c);
}

struct good_params { /* as in t/fault/scheduler_good.c */
  bool eager;
  int64_t budget;
  double weight;
  const char *label, *file;
};

static void test_plugin_section_is_bound(void **state)
{
  const struct folder *folder = *state;
  struct lls_config c;
  char file[128];
  load_good(folder,
            GOOD_PLUGINS
            "[model]\npath = .\n[scheduler.good]\nbudget = 7\nweight = 0.25\n"
            "file = lengths\n",
            &c);
  const struct good_params *params = c.policies.scheduler.params;
  assert_true(params->eager);
  assert_int_equal(params->budget, 7);
  assert_true(params->weight == 0.25);
  assert_string_equal(params->label, "plain");
  snprintf(file, sizeof file, "%s/lengths", folder->path);
  assert_string_equal(params->file, file);
  lls_config_free(&c);
}

static void test_plugin_by_path_from_the_ini(void **state)
{
  const struct folder *folder = *state;
  char link[128], target[PATH_MAX + 32];
  snprintf(link, sizeof link, "%s/my.so", folder->path);
  snprintf(target, sizeof target, "%s/scheduler_good.so", fixture_folder());
  assert_int_equal(symlink(target, link), 0);
  struct lls_config c;
  load_good(folder,
            "[plugins]\nscheduler=./"
            "my.so\ncache=good\npredictor=good\ndrafter=good\n[model]\npath=.\n"
            "[scheduler.good]\nbudget = 9\n",
            &c);
  assert_string_equal(c.policies.scheduler.module->path + strlen(folder->path), "/my.so");
  assert_int_equal(((const struct good_params *)c.policies.scheduler.params)->budget, 9);
  lls_config_free(&c);
}

static void test_later_errors_name_the_line(void **state)
{
  const struct folder *folder = *state;
  struct lls_config c;
  struct lls_error err = {0};
  char expected[256];
  load_good(folder, GOOD_PLUGINS "[model]\npath = .\n", &c);
  assert_int_equal(lls_config_fail(&c, &err, -ENOENT, "model", "path", "no %s", "tensor"),
                   -ENOENT);
  snprintf(expected, sizeof expected, "%s/x.ini:7: [model] path: no tensor",
           folder->path);
  assert_string_equal(err.text, expected);
  lls_config_fail(&c, &err, -ENOENT, "engine", "threads", "too many");
  snprintf(expected, sizeof expected, "%s/x.ini: [engine] threads: too many",
           folder->path);
  assert_string_equal(err.text, expected);
  lls_config_free(&c);
}

/* ---- what is wrong ---- */

/* Checks that the text causes exactly these errors, after the file's name. */
static void assert_errors(const struct folder *folder, const char *text, size_t n,
                          const char *const *sentences)
{
  struct lls_config config;
  struct lls_config_errors errors;
  size_t prefix = strlen(folder->path) + strlen("/x.ini");
  assert_int_equal(load(folder, text, &config, &errors), -EINVAL);
  for (size_t i = 0; i < n && i < errors.n; i++)
    assert_string_equal(errors.list[i].error.text + prefix, sentences[i]);
  assert_int_equal(errors.n, n);
  lls_config_errors_free(&errors);
}

/* One error at a time, after six good lines, so that the text's first line is line
 * 7. */
static void test_one_error_at_a_time(void **state)
{
  const struct {
    const char *text, *sentence;
  } cases[] = {
      {"[server]\nlistn = x\n",
       ":9: unknown key 'listn' in [server]; the nearest is 'listen'"},
      {"[enginee]\n",
       ":8: unknown section [enginee]: expected [server], [tls], [model], [engine], "
       "[cluster], [cache], "
       "[plugins], [lora], [models], a model's, like [model.NAME], [tenants], a "
       "tenant's, "
       "like [tenant.NAME], or a plugin's, like [scheduler.NAME]; the nearest is "
       "[engine]"},
      {"[server]\nxyzzy = 1\n", ":9: unknown key 'xyzzy' in [server]"},
      {"[engine]\nweights = int8\n",
       ":9: unknown key 'weights' in [engine]: it is one of [model]"},
      {"cache = good\n", ":8: 'cache' is set in line 5 already"},
      {"[model]\n", ":8: [model] began in line 1 already: write its keys there"},
      {"nonsense\n", ":8: expected 'key = value', '[section]' or a comment"},
      {"[engine ; threads]\n", ":8: expected 'key = value', '[section]' or a comment"},
      {"[engine\n", ":8: expected 'key = value', '[section]' or a comment"},
      {"[engine]\nthreads = many\n", ":9: [engine] threads: expected a whole number of "
                                     "threads, from 0 to 1024; found 'many'"},
      {"[engine]\n\n threads =\n", ":10: [engine] threads: expected a whole number of "
                                   "threads, from 0 to 1024; found ''"},
      {"[server]\nlisten = 8080\n",
       ":9: [server] listen: expected ADDRESS:PORT like 127.0.0.1:8080, 0.0.0.0:8080 or "
       "[::1]:8080, or unix:/PATH; found '8080'"},
      {"[server]\nlisten = ::1:8080\n",
       ":9: [server] listen: expected ADDRESS:PORT like 127.0.0.1:8080, 0.0.0.0:8080 or "
       "[::1]:8080, or unix:/PATH; found '::1:8080'"},
      {"[server]\nlisten = localhost:65536\n",
       ":9: [server] listen: expected ADDRESS:PORT like 127.0.0.1:8080, 0.0.0.0:8080 or "
       "[::1]:8080, or unix:/PATH; found 'localhost:65536'"},
      {"[server]\nlisten = :80, unix:run/x\n",
       ":9: [server] listen: expected the whole path of a Unix socket, like "
       "unix:/run/llmserve/api.sock; found 'unix:run/x'"},
      {"[server]\nlisten =\n",
       ":9: [server] listen: expected an address, like 127.0.0.1:8080; found none"},
      {"[scheduler.good]\nbudget = 0\n", ":9: [scheduler.good] budget: expected a whole "
                                         "number of tokens, from 1 to 4096; found "
                                         "'0'"},
      {"[scheduler.good]\nbugdet = 1\n",
       ":9: unknown key 'bugdet' in [scheduler.good]; the nearest is 'budget'"},
      {"[cache.good]\nsize = 1\n", ":9: [cache.good] has no keys; found 'size'"},
      {"[scheduler.failing_create]\nx = 1\n",
       ":9: [scheduler.failing_create] has no keys; found 'x'"},
      {"[server]\nlisten 127.0.0.1:80\n", ":9: unknown key 'listen 127.0.0.1' in "
                                          "[server]: a line is key = value, and no key "
                                          "has a blank"},
      {"[server]\nlog_level = info # of late\n",
       ":9: [server] log_level: expected one of error, warning, info, debug; found 'info "
       "# of late' (behind a value a comment begins with ;)"},
      {"[engine]\nthreads = \"2\"\n",
       ":9: [engine] threads: expected a whole number of threads, from 0 to 1024; found "
       "'\"2\"' (values stand without quotation marks)"},
      {"[server]\nallowed_origins = * null http://localhost:* https://a.example/\n",
       ":9: [server] allowed_origins: expected origins like https://chat.example.org "
       "with "
       "blanks between, no path behind them, or *; found 'https://a.example/'"},
      {"[server]\nallowed_origins = https://a.example, https://b.example\n",
       ":9: [server] allowed_origins: expected origins like https://chat.example.org "
       "with "
       "blanks between, no path behind them, or *; found 'https://a.example,'"},
      {"[server]\nstate = /dev/null\n",
       ":9: [server] state: '/dev/null' is no folder; expected one"},
      {"[server]\ndecisions = /proc\n",
       ":9: [server] decisions: '/proc' is a folder; expected a file in it"},
  };
  char text[1024];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    snprintf(text, sizeof text, "[model]\npath = .\n%s%s", GOOD_PLUGINS, cases[i].text);
    assert_errors(*state, text, 1, &cases[i].sentence);
  }
}

static void test_all_errors_in_file_order(void **state)
{
  const char *const sentences[] = {
      ":1: 'early' stands before the first section: expected a line like [server] above "
      "it",
      ":4: [cache] block_tokens: expected a whole number of tokens, from 1 to 256; found "
      "'0'",
      ":6: [server] max_body: expected bytes like 1000, 512MiB or 2GiB, from 1KiB to "
      "1GiB; "
      "found '1'",
      ":7: 'max_body' is set in line 6 already",
      ": [model] needs the key 'path': folder of the model as Hugging Face lays it out, "
      "with config.json, or a .gguf file, of a split set the first; or OWNER/NAME or "
      "OWNER/NAME:QUANT, a model of Hugging Face's hub, which llmserve fetches at its "
      "start",
  };
  char text[1024];
  snprintf(text, sizeof text,
           "early = 1\n\n[cache]\nblock_tokens = 0\n[server]\nmax_body = 1\n"
           "max_body = 1MiB\n%s",
           GOOD_PLUGINS);
  assert_errors(*state, text, 5, sentences);
}

static void test_lines_longer_than_inih_reads(void **state)
{
  const struct folder *folder = *state;
  const char *const sentences[] = {
      ":9: a line of more than 198 bytes; make it shorter",
      ":10: a key of more than 48 characters; none is that long",
      ":11: a section name of more than 48 characters; none is that long",
  };
  char text[1024], filler[201];
  memset(filler, 'x', sizeof filler - 1);
  filler[sizeof filler - 1] = '\0';
  snprintf(text, sizeof text,
           "[model]\npath = .\n%s; %.196s\n; %.197s\n%.49s = 1\n[%.49s]\n", GOOD_PLUGINS,
           filler, filler, filler, filler);
  assert_errors(folder, text, 3, sentences);
}

static void test_model_folder_must_be_one(void **state)
{
  const struct folder *folder = *state;
  char missing[512], file[256], empty[256];
  const char *sentence;
  snprintf(missing, sizeof missing,
           ":7: [model] path: expected a model folder or a .gguf file; cannot open "
           "'%s/no': No such file or "
           "directory",
           folder->path);
  sentence = missing;
  assert_errors(folder, GOOD_PLUGINS "[model]\npath = no\n", 1, &sentence);
  snprintf(missing, sizeof missing,
           ":7: [model] path: expected a model folder or a .gguf file; cannot open "
           "'%s/org/small': No such file or directory" HUB_ADVICE,
           folder->path);
  assert_errors(folder, GOOD_PLUGINS "[model]\npath = org/small\n", 1, &sentence);
  snprintf(file, sizeof file,
           ":7: [model] path: expected a model folder or a .gguf file; '%s/x.ini' is "
           "neither",
           folder->path);
  sentence = file;
  assert_errors(folder, GOOD_PLUGINS "[model]\npath = x.ini\n", 1, &sentence);
  snprintf(
      empty, sizeof empty,
      ":7: [model] path: cannot read '/proc/config.json': No such file or directory");
  sentence = empty;
  assert_errors(folder, GOOD_PLUGINS "[model]\npath = /proc\n", 1, &sentence);
}

static void test_plugins_that_are_not_there(void **state)
{
  char chosen[PATH_MAX + 256], other[PATH_MAX + 256];
  snprintf(
      chosen, sizeof chosen,
      ":4: no scheduler 'godo': expected a file scheduler_godo.so in %s:%s; the nearest "
      "is 'good'",
      fixture_folder(), LLS_PLUGIN_DIR);
  snprintf(
      other, sizeof other,
      ":8: no cache 'goood': expected a file cache_goood.so in %s:%s; the nearest is "
      "'good'",
      fixture_folder(), LLS_PLUGIN_DIR);
  const char *const sentences[] = {chosen, other};
  assert_errors(*state,
                "[model]\npath = .\n[plugins]\nscheduler = godo\ncache = good\n"
                "predictor = good\ndrafter = good\n[cache.goood]\n",
                2, sentences);
}

static void test_plugins_of_another_kind(void **state)
{
  const char *const sentences[] = {
      ":4: no scheduler 'half_transfer': that is a cache, for [plugins] cache"};
  assert_errors(*state,
                "[model]\npath = .\n[plugins]\nscheduler = half_transfer\n"
                "cache = good\npredictor = good\ndrafter = good\n",
                1, sentences);
}

static void test_refused_plugin_names_the_line(void **state)
{
  char sentence[PATH_MAX + 256];
  const char *const sentences[] = {sentence};
  snprintf(
      sentence, sizeof sentence,
      ":4: %s/scheduler_no_plan.so: struct lls_scheduler_vtable: expected the callback "
      "plan, found NULL",
      fixture_folder());
  assert_errors(*state,
                "[model]\npath = .\n[plugins]\nscheduler = no_plan\ncache = good\n"
                "predictor = good\ndrafter = good\n",
                1, sentences);
}

/* The section's keys are known only to the plugin that could not be loaded. */
static void test_section_of_a_refused_plugin_is_no_other_error(void **state)
{
  char text[PATH_MAX + 256], sentence[PATH_MAX + 256];
  const char *const sentences[] = {sentence};
  snprintf(text, sizeof text,
           "[model]\npath = .\n[plugins]\nscheduler = %s/scheduler_no_plan.so\n"
           "cache = good\npredictor = good\ndrafter = good\n[scheduler.mine]\nkey = 1\n",
           fixture_folder());
  snprintf(
      sentence, sizeof sentence,
      ":4: %s/scheduler_no_plan.so: struct lls_scheduler_vtable: expected the callback "
      "plan, found NULL",
      fixture_folder());
  assert_errors(*state, text, 1, sentences);
}

static void test_settings_count_before_the_file(void **state)
{
  const struct folder *folder = *state;
  struct lls_config c;
  struct lls_config_errors errors = {0};
  char path[128], model[128];
  snprintf(path, sizeof path, "%s/x.ini", folder->path);
  snprintf(model, sizeof model, "model.path=%s", folder->path);
  folder_write_text(folder, "config.json", "{}");
  folder_write_text(folder, "x.ini", GOOD_PLUGINS "[engine]\nseed = 1\n");
  const char *const settings[] = {model, "engine.seed=7", "cache.block_tokens=32"};
  if (lls_config_load_with(path, settings, 3, &c, &errors) < 0)
    fail_msg("%s", errors.list[0].error.text);
  assert_string_equal(c.model.path, folder->path);
  assert_int_equal(c.engine.seed, 7);
  assert_int_equal(c.cache.block_tokens, 32);
  lls_config_free(&c);

  const char *const bad[] = {model, "engine.sead=7", "seed=7"};
  assert_int_equal(lls_config_load_with(path, bad, 3, &c, &errors), -EINVAL);
  assert_int_equal(errors.n, 2);
  assert_string_equal(errors.list[0].error.text,
                      "command line: --set 'seed=7': expected SECTION.KEY=VALUE");
  assert_non_null(strstr(errors.list[1].error.text, "the nearest is 'seed'"));
  lls_config_errors_free(&errors);
}

static void test_file_that_is_not_there(void **state)
{
  (void)state;
  struct lls_config config;
  struct lls_config_errors errors = {0};
  assert_int_equal(lls_config_load("/nowhere/x.ini", &config, &errors), -ENOENT);
  assert_string_equal(errors.list[0].error.text,
                      "/nowhere/x.ini: cannot open: No such file or directory");
  lls_config_errors_free(&errors);
}

/* Opening any of these as a file would block, or reading it never end. */
static void test_what_is_no_file(void **state)
{
  const struct folder *folder = *state;
  char fifo[128], expected[256];
  snprintf(fifo, sizeof fifo, "%s/fifo", folder->path);
  assert_int_equal(mkfifo(fifo, 0600), 0);
  const struct {
    const char *path, *sentence;
  } cases[] = {
      {fifo, "a pipe; expected a file, which can be read again"},
      {"/dev/zero", "a device; expected a file, which can be read again"},
      {folder->path, "a folder; expected a file"},
  };
  alarm(30);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct lls_config config;
    struct lls_config_errors errors = {0};
    assert_int_equal(lls_config_load(cases[i].path, &config, &errors), -EINVAL);
    snprintf(expected, sizeof expected, "%s: %s", cases[i].path, cases[i].sentence);
    assert_string_equal(errors.list[0].error.text, expected);
    lls_config_errors_free(&errors);
  }
  snprintf(expected, sizeof expected,
           ":9: [server] api_keys: %s: a pipe; expected a file or a folder", fifo);
  assert_errors(folder, GOOD_PLUGINS "[model]\npath = .\n[server]\napi_keys = fifo\n", 1,
                (const char *const[]){expected});
  alarm(0);
}

/* Thousands of errors must not be compared, sorted and printed one by one: that took
 * minutes. */
static void test_more_errors_than_anybody_reads(void **state)
{
  const struct folder *folder = *state;
  struct lls_config config;
  struct lls_config_errors errors;
  char *text = calloc(1, 1 << 20), *at = text + sprintf(text, "[server]\n");
  for (unsigned i = 0; i < 120000; i++)
    at += sprintf(at, "%x=\n", i);
  alarm(30);
  assert_int_equal(load(folder, text, &config, &errors), -EINVAL);
  alarm(0);
  assert_int_equal(errors.n, LLS_CONFIG_MAX_ERRORS + 1);
  assert_non_null(strstr(errors.list[0].error.text, "x.ini:2: unknown key '0' in"));
  assert_non_null(strstr(errors.list[errors.n - 2].error.text,
                         "x.ini:2001: more than 2000 sections and keys"));
  assert_non_null(strstr(errors.list[errors.n - 1].error.text, "x.ini: and 1"));
  lls_config_errors_free(&errors);
  memset(text, 'x', (1 << 20) - 1);
  text = realloc(text, (1 << 20) + 2);
  memcpy(text + (1 << 20) - 1, "xx", 3);
  assert_int_equal(load(folder, text, &config, &errors), -EINVAL);
  assert_non_null(strstr(errors.list[0].error.text, "1048577 bytes; at most 1048576"));
  lls_config_errors_free(&errors);
  free(text);
}

static void test_core_tables_are_sound(void **state)
{
  (void)state;
  for (const struct lls_section *s = lls_sections; s->name != NULL; s++) {
    struct lls_error err = {0};
    if (lls_param_table_check(&s->table, &err) < 0)
      fail_msg("[%s] %s", s->name, err.text);
  }
}

int main(void)
{
  setenv("HF_HUB_CACHE", "/nowhere/hub", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_core_tables_are_sound),
      IN_FOLDER(test_listen_and_path_are_enough),
      IN_FOLDER(test_lines_of_listen_add_up),
      IN_FOLDER(test_values_are_bound),
      IN_FOLDER(test_plugin_section_is_bound),
      IN_FOLDER(test_plugin_by_path_from_the_ini),
      IN_FOLDER(test_what_is_no_file),
      IN_FOLDER(test_more_errors_than_anybody_reads),
      IN_FOLDER(test_later_errors_name_the_line),
      IN_FOLDER(test_one_error_at_a_time),
      IN_FOLDER(test_all_errors_in_file_order),
      IN_FOLDER(test_lines_longer_than_inih_reads),
      IN_FOLDER(test_model_folder_must_be_one),
      IN_FOLDER(test_plugins_that_are_not_there),
      IN_FOLDER(test_plugins_of_another_kind),
      IN_FOLDER(test_refused_plugin_names_the_line),
      IN_FOLDER(test_section_of_a_refused_plugin_is_no_other_error),
      IN_FOLDER(test_settings_count_before_the_file),
      cmocka_unit_test(test_file_that_is_not_there),
  };
  return cmocka_run_group_tests(tests, find_fixtures, NULL);
}
