/* SPDX-License-Identifier: Apache-2.0 */
/* Constraints on the core's keys that the tables can't express. */
#include "core/base/listen_address.h"
#include "core/config/candidates.h"
#include "core/config/instance_list.h"
#include "core/config/loading.h"
#include "core/config/objective.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static void check_listen(struct lls_loading *l)
{
  const char *list = l->config->server.listen;
  struct lls_listen_address address;
  struct lls_error err = {0};
  unsigned n = 0;
  int rc;
  while ((rc = lls_listen_next(&list, &address, &err)) > 0)
    n++;
  if (rc == 0 && n == 0)
    lls_fail(&err, -EINVAL, "expected an address, like 127.0.0.1:8080; found none");
  if (err.text[0] != '\0')
    lls_loading_error(l, lls_loading_line(l, "server", "listen"), "[server] listen: %s",
                      err.text);
}

/* Returns true if an address of [server] listen uses TLS; *insists, if one does without
 * a certificate to use. */
static bool listens_with_tls(const struct lls_config *c, bool *insists)
{
  const char *list = c->server.listen;
  struct lls_listen_address address;
  bool uses = false;
  *insists = false;
  while (lls_listen_next(&list, &address, NULL) > 0) {
    uses |= lls_listen_uses_tls(&address, true);
    *insists |= address.tls == LLS_LISTEN_TLS_ALWAYS;
  }
  return uses;
}

static void check_tls(struct lls_loading *l)
{
  const struct lls_tls_section *tls = &l->config->tls;
  bool has = tls->certificate[0] != '\0', insists;
  bool uses = listens_with_tls(l->config, &insists);
  if (!has && insists)
    lls_loading_error(l, lls_loading_line(l, "server", "listen"),
                      "[server] listen: https:// needs a certificate: set [tls] "
                      "certificate and key");
  if (!has && (tls->key[0] != '\0' || tls->client_ca[0] != '\0'))
    lls_loading_error(
        l, lls_loading_line(l, "tls", tls->key[0] != '\0' ? "key" : "client_ca"),
        "[tls] needs the key 'certificate': without it there is no TLS");
  if (has && !uses)
    lls_loading_error(l, lls_loading_line(l, "tls", "certificate"),
                      "[tls] certificate: no address of [server] listen would speak TLS, "
                      "which Unix sockets and http:// do not: add one, like "
                      "0.0.0.0:8443, or remove the certificate");
}

/* Checks [server] replica: it is part of ids and headers, and in ids a '-' ends it. */
static void check_replica(struct lls_loading *l)
{
  static const char letters[] =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const char *replica = l->config->server.replica;
  if (replica[strspn(replica, letters)] != '\0' || strlen(replica) > LLS_REPLICA_MAX)
    lls_loading_error(l, lls_loading_line(l, "server", "replica"),
                      "[server] replica: expected letters and digits, %d at most; found "
                      "'%.40s'",
                      LLS_REPLICA_MAX, replica);
}

static int find_policy(const struct lls_loading *l, uint32_t kind, const char *name,
                       struct lls_error *err)
{
  char found[PATH_MAX];
  char *path = lls_path_join(strchr(name, '/') != NULL ? l->folder : NULL, name);
  int rc = path == NULL ? lls_fail(err, -ENOMEM, "no memory")
                        : lls_plugin_find(kind, path, found, err);
  if (rc == 0 && access(found, R_OK) < 0)
    rc = lls_fail(err, -errno, "%s: %s", found, strerror(errno));
  free(path);
  return rc;
}

/* Returns the policy of this kind in a candidate's settings, malloc'ed; NULL if it
 * names none. */
static char *policy_in(const char *settings, uint32_t kind)
{
  char key[64];
  int n = snprintf(key, sizeof key, "plugins.%s=", lls_plugin_kind_name(kind));
  const char *at = strstr(settings, key);
  return at != NULL ? strndup(at + n, strcspn(at + n, "\n")) : NULL;
}

/* Checks that a candidate's policies exist; the simulator checks the parameters. Points
 * of one grid have the same policies, so an error equal to `told` is not repeated. */
static void check_candidate(struct lls_loading *l, unsigned line,
                            const struct lls_candidate *candidate, struct lls_error *told)
{
  for (uint32_t kind = LLS_KIND_SCHEDULER; kind <= LLS_KIND_DRAFTER; kind++) {
    struct lls_error err = {0};
    char *name = policy_in(candidate->settings, kind);
    if (name != NULL && find_policy(l, kind, name, &err) < 0 &&
        strcmp(err.text, told->text) != 0) {
      lls_loading_error(l, line, "[server] autopilot_policies: %s", err.text);
      *told = err;
    }
    free(name);
  }
}

static void check_autopilot_policies(struct lls_loading *l)
{
  const char *policies = l->config->server.autopilot_policies;
  unsigned line = lls_loading_line(l, "server", "autopilot_policies");
  struct lls_candidates all = {0};
  struct lls_error err = {0}, told = {0};
  int rc = strlen(policies) < LLS_CANDIDATES_TEXT_MAX
               ? lls_candidates_read(policies, false, &all, &err)
               : lls_fail(&err, -E2BIG, "more than %d characters",
                          LLS_CANDIDATES_TEXT_MAX - 1);
  if (rc < 0)
    lls_loading_error(l, line, "[server] autopilot_policies: %s",
                      lls_error_text(&err, rc));
  for (size_t i = 0; rc == 0 && i < all.n; i++)
    check_candidate(l, line, &all.items[i], &told);
  if (rc == 0)
    lls_candidates_free(&all);
}

static void check_autopilot_objective(struct lls_loading *l)
{
  struct lls_error err = {0};
  if (lls_objective_check(l->config->server.autopilot_objective, &err) < 0)
    lls_loading_error(l, lls_loading_line(l, "server", "autopilot_objective"),
                      "[server] autopilot_objective: %s", err.text);
}

static void check_autopilot(struct lls_loading *l)
{
  const struct lls_server_config *c = &l->config->server;
  unsigned line = lls_loading_line(l, "server", "autopilot");
  if (!c->autopilot)
    return;
  if (c->autopilot_policies[0] == '\0')
    lls_loading_error(l, line,
                      "[server] autopilot: autopilot_policies is to name the "
                      "configurations that it may choose from");
  if (c->sandbox == LLS_SANDBOX_ON)
    lls_loading_error(
        l, line,
        "[server] autopilot: it runs llmserve-whatif, and sandbox = on runs "
        "no other program: set sandbox to auto");
  if (c->history == 0)
    lls_loading_error(l, line,
                      "[server] autopilot: nothing is known of the traffic where "
                      "[server] history is 0");
}

static bool has_suffix(const char *text, const char *suffix)
{
  size_t length = strlen(text), end = strlen(suffix);
  return length >= end && strcasecmp(text + length - end, suffix) == 0;
}

static void cannot_open_model(struct lls_loading *l, unsigned line, int code,
                              const char *hint)
{
  const struct lls_config *c = l->config;
  const struct lls_ini_entry *entry = lls_ini_find(&c->ini, "model", "path");
  lls_loading_error(
      l, line,
      "[model] path: expected a model folder or a .gguf file; cannot open '%s': %s%s%s",
      c->model.path, strerror(code), hint,
      code == ENOENT && entry->value[0] == '~'
          ? ": write the folder in full, ~ is a shell's"
          : "");
}

/* Returns the number of .gguf files in a folder; `name` gets the name of the first. */
static unsigned count_gguf(const char *folder, char *name, size_t size)
{
  unsigned n = 0;
  DIR *dir = opendir(folder);
  for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
    if (has_suffix(entry->d_name, ".gguf") && n++ == 0)
      snprintf(name, size, "%s", entry->d_name);
  if (dir != NULL)
    closedir(dir);
  return n;
}

/* Reports a folder without config.json; its other files show which path to set instead.
 */
static void no_config(struct lls_loading *l, unsigned line, const char *config, int code)
{
  char name[NAME_MAX + 1], hint[NAME_MAX + 128] = "";
  const char *folder = l->config->model.path;
  char *adapter = lls_path_join(folder, "adapter_config.json");
  unsigned n = code == ENOENT ? count_gguf(folder, name, sizeof name) : 0;
  if (n == 1)
    snprintf(hint, sizeof hint, ": name the file in the folder, %s", name);
  else if (n > 1)
    snprintf(hint, sizeof hint,
             ": name one of the %u .gguf files in the folder, of a split set the first",
             n);
  else if (code == ENOENT && adapter != NULL && access(adapter, R_OK) == 0)
    snprintf(hint, sizeof hint,
             ": it holds a LoRA adapter; name its model here, and the adapter in [lora]");
  lls_loading_error(l, line, "[model] path: cannot read '%s': %s%s", config,
                    strerror(code), hint);
  free(adapter);
}

static void check_model(struct lls_loading *l)
{
  struct stat st;
  char hint[LLS_ERROR_MAX] = "";
  if (l->config->model.path == NULL)
    return; /* reported as missing already */
  bool found = lls_loading_hub_model(l, hint, sizeof hint);
  const char *path = l->config->model.path;
  unsigned line = lls_loading_line(l, "model", "path");
  char *config = lls_path_join(path, "config.json");
  if (!found || stat(path, &st) < 0)
    cannot_open_model(l, line, found ? errno : ENOENT, hint);
  else if (S_ISREG(st.st_mode) && has_suffix(path, ".gguf"))
    ; /* the contents are checked when the template is read */
  else if (!S_ISDIR(st.st_mode))
    lls_loading_error(l, line,
                      "[model] path: expected a model folder or a .gguf file; '%s' is "
                      "neither",
                      path);
  else if (config != NULL && access(config, R_OK) < 0)
    no_config(l, line, config, errno);
  free(config);
}

/* Returns the last name of a path, which it changes. A snapshot in the hub's cache,
 * .../models--org--name/snapshots/HASH, is called org/name. */
static const char *name_of(char *path)
{
  static const char models[] = "models--";
  char *last = strrchr(path, '/');
  for (unsigned i = 0; i < 2 && last > path; i++) /* HASH and snapshots */
    last = memrchr(path, '/', (size_t)(last - path));
  if (last == NULL || strncmp(last + 1, models, strlen(models)) != 0 ||
      strncmp(strchr(last + 1, '/'), "/snapshots/", strlen("/snapshots/")) != 0)
    return strrchr(path, '/') + 1;
  char *name = last + 1 + strlen(models), *separator;
  *strchr(name, '/') = '\0';
  if ((separator = strstr(name, "--")) != NULL) {
    *separator = '/';
    memmove(separator + 1, separator + 2, strlen(separator + 2) + 1);
  }
  return name;
}

/* Sets the served model's name to the last name of its path, with links and dots
 * resolved and without ".gguf". A file in the hub's cache is a link to a hash, so the
 * link's name is used. */
static void default_model_name(struct lls_loading *l)
{
  struct lls_config *c = l->config;
  if (c->server.served_model_name[0] != '\0' || c->model.path == NULL)
    return;
  char *real = realpath(c->model.path, NULL);
  if (real == NULL)
    return; /* check_model has reported it */
  if (has_suffix(c->model.path, ".gguf") && !has_suffix(real, ".gguf")) {
    const char *last = strrchr(c->model.path, '/');
    free(real);
    real = lls_path_join("/", last != NULL ? last + 1 : c->model.path);
    if (real == NULL)
      return;
  }
  if (has_suffix(real, ".gguf"))
    real[strlen(real) - strlen(".gguf")] = '\0';
  free((char *)c->server.served_model_name);
  c->server.served_model_name = strdup(name_of(real));
  if (c->server.served_model_name == NULL)
    lls_loading_error(l, 0, "no memory");
  free(real);
}

static void check_instances(struct lls_loading *l)
{
  struct lls_instances all;
  struct lls_error err;
  const char *key;
  if (lls_instances_read(&l->config->engine, &all, &key, &err) < 0)
    lls_loading_error(l, lls_loading_line(l, "engine", key), "[engine] %s: %s", key,
                      err.text);
}

/* Limits the answers of one request to max_requests, since more could never run. */
static void limit_choices(struct lls_config *c)
{
  if (c->server.api.max_choices > c->engine.max_requests)
    c->server.api.max_choices = c->engine.max_requests;
  if (c->server.api.max_inputs > c->engine.max_requests)
    c->server.api.max_inputs = c->engine.max_requests;
}

static void choose_batch_requests(struct lls_config *c)
{
  if (c->server.api.batch_requests == LLS_NEVER)
    c->server.api.batch_requests = (c->engine.max_sequences + 1) / 2;
}

static void choose_any_model(struct lls_config *c)
{
  if (c->server.api.any_model == LLS_ANY_MODEL_AUTO)
    c->server.api.any_model = c->server.api_keys[0] == '\0' && !lls_lora_is_on(&c->lora)
                                  ? LLS_ANY_MODEL_TRUE
                                  : LLS_ANY_MODEL_FALSE;
}

static void check_kept_prompts(struct lls_loading *l)
{
  const struct lls_config *c = l->config;
  if (c->cache.kept_prompts > 0 && c->server.state[0] == '\0')
    lls_loading_error(l, lls_loading_line(l, "cache", "kept_prompts"),
                      "[cache] kept_prompts: they are kept in the folder of [server] "
                      "state, which is not set");
  if (c->cache.disk_space > 0 && c->server.state[0] == '\0')
    lls_loading_error(l, lls_loading_line(l, "cache", "disk_space"),
                      "[cache] disk_space: it is in the folder of [server] state, which "
                      "is not set");
}

/* Checks the database and the folder that replicas share: both or none. */
static void check_shared_state(struct lls_loading *l)
{
  const struct lls_server_config *server = &l->config->server;
  const char *url = server->state_database;
  int line = lls_loading_line(l, "server", "state_database");
  if (strstr(server->state, "://") != NULL)
    lls_loading_error(l, lls_loading_line(l, "server", "state"),
                      "[server] state: it is a folder; a database is named by "
                      "state_database, beside it");
  if (url[0] == '\0')
    return;
  if (strncmp(url, "postgresql://", 13) != 0 && strncmp(url, "postgres://", 11) != 0)
    lls_loading_error(l, line,
                      "[server] state_database: expected postgresql://USER@HOST/NAME");
  if (server->state[0] == '\0')
    lls_loading_error(l, line,
                      "[server] state_database: it needs state, a folder for what is "
                      "this server's alone");
}

/* Checks a path that the server writes. If it does not exist the server may create it,
 * and a service manager the folder above. */
static void check_written(struct lls_loading *l, const char *key, const char *path,
                          bool folder)
{
  struct stat st;
  if (path[0] == '\0' || stat(path, &st) < 0 || folder == S_ISDIR(st.st_mode))
    return;
  lls_loading_error(l, lls_loading_line(l, "server", key),
                    "[server] %s: '%s' is %s; expected %s", key, path,
                    folder ? "no folder" : "a folder", folder ? "one" : "a file in it");
}

/* True if the word is an origin as browsers send it; any other text would never match
 * one. */
static bool is_origin(const char *word, size_t length)
{
  const char *end = word + length;
  const char *authority = memmem(word, length, "://", 3);
  if ((length == 1 && word[0] == '*') || (length == 4 && strncmp(word, "null", 4) == 0))
    return true;
  if (authority == NULL || authority == word || authority + 3 == end)
    return false;
  return authority + 3 + strcspn(authority + 3, "/, ") >= end;
}

static void check_origins(struct lls_loading *l)
{
  const char *word = l->config->server.api.allowed_origins;
  for (word += strspn(word, " "); *word != '\0'; word += strspn(word, " ")) {
    size_t length = strcspn(word, " ");
    if (!is_origin(word, length))
      lls_loading_error(l, lls_loading_line(l, "server", "allowed_origins"),
                        "[server] allowed_origins: expected origins like "
                        "https://chat.example.org with blanks between, no path behind "
                        "them, or *; found '%.*s'",
                        (int)length, word);
    word += length;
  }
}

void lls_loading_check(struct lls_loading *l)
{
  const struct lls_server_config *server = &l->config->server;
  check_listen(l);
  check_tls(l);
  check_replica(l);
  check_origins(l);
  check_written(l, "state", server->state, true);
  check_written(l, "state_files", server->state_files, true);
  check_shared_state(l);
  check_written(l, "decisions", server->decisions, false);
  check_autopilot(l);
  check_autopilot_policies(l);
  check_autopilot_objective(l);
  check_model(l);
  check_instances(l);
  check_kept_prompts(l);
  default_model_name(l);
  lls_loading_check_lora(l);
  limit_choices(l->config);
  choose_any_model(l->config);
  choose_batch_requests(l->config);
}
