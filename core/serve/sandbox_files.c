/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock, by its own system calls, since C libraries have none: see sandbox.h and the
 * kernel's Documentation/userspace-api/landlock.rst. Rights that the kernel's Landlock
 * ABI does not have yet are left out.
 */
#include "core/serve/sandbox.h"

#include "core/base/file.h"
#include "core/base/installed.h"
#include "core/base/listen_address.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __has_feature /* clang has no such macros */
#define LLS_CLANG_SANITIZES                                                              \
  (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define LLS_CLANG_SANITIZES 0
#endif

/* ---- what the kernel's header may lack --------------------------------------------- */

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444 /* number on every machine */
#define SYS_landlock_add_rule       445
#define SYS_landlock_restrict_self  446
#endif
/* a flag of create_ruleset: returns the kernel's Landlock ABI */
#define VERSION      1u
#define PATH_BENEATH 1

enum {
  EXECUTE = 1 << 0,
  WRITE_FILE = 1 << 1,
  READ_FILE = 1 << 2,
  READ_DIR = 1 << 3,
  REMOVE_FILE = 1 << 5,
  MAKE_SOCK = 1 << 9,
  /* all rights of ABI 1, also removing and making every kind of file */
  FIRST_ABI = (1 << 13) - 1,
  REFER = 1 << 13,      /* ABI 2 */
  TRUNCATE = 1 << 14,   /* 3 */
  IOCTL_DEV = 1 << 15,  /* 5 */
  CONNECT_TCP = 1 << 1, /* 4, of the network */
  /* 6: limits access to abstract Unix sockets outside the sandbox */
  SCOPE_ABSTRACT = 1 << 0,
  SCOPE_SIGNAL = 1 << 1,
  READS = READ_FILE | READ_DIR,
};

struct ruleset {
  uint64_t files, network, scoped;
};

struct beneath {
  uint64_t allowed;
  int32_t folder;
} __attribute__((packed));

/* ---- rules ------------------------------------------------------------------------- */

struct rules {
  int fd;
  uint64_t known; /* rights of files that this kernel knows */
  unsigned reads, writes;
  int rc;
};

/* Adds a rule for a path, unless it does not exist. Rights that only folders have are
 * dropped for a file. */
static void allow(struct rules *r, const char *path, uint64_t rights)
{
  struct stat st;
  int fd = path[0] != '\0' ? open(path, O_PATH | O_CLOEXEC) : -1;
  if (fd < 0)
    return;
  if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
    rights &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
  struct beneath rule = {.allowed = rights & r->known, .folder = fd};
  if (syscall(SYS_landlock_add_rule, r->fd, PATH_BENEATH, &rule, 0) < 0 && r->rc == 0)
    r->rc = -errno;
  close(fd);
  if (rights & WRITE_FILE)
    r->writes++;
  else
    r->reads++;
}

#define ALL             UINT64_MAX
#define ALL_BUT_EXECUTE (ALL & ~(uint64_t)EXECUTE)

/* Allows the folder of a file, since editors replace a file by a new one. */
static void allow_folder_of(struct rules *r, const char *path, uint64_t rights)
{
  char copy[PATH_MAX], real[PATH_MAX];
  if (path[0] == '\0' || snprintf(copy, sizeof copy, "%s", path) >= (int)sizeof copy)
    return;
  allow(r, dirname(copy), rights);
  if (realpath(path, real) != NULL) /* a link may lead to another folder */
    allow(r, dirname(real), rights);
}

/* Allows a model's folder and the folders that links in it lead to, as in the cache of
 * huggingface_hub. */
static void allow_model(struct rules *r, const char *path)
{
  char file[PATH_MAX];
  DIR *dir = opendir(path);
  if (dir == NULL) { /* a .gguf */
    allow_folder_of(r, path, READS);
    return;
  }
  allow(r, path, READS);
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
    if (entry->d_type == DT_LNK &&
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name) < (int)sizeof file)
      allow_folder_of(r, file, READS);
  closedir(dir);
}

static void allow_search_path(struct rules *r)
{
  char *path = lls_plugin_search_path(), *rest = path;
  for (char *folder; (folder = strsep(&rest, ":")) != NULL;)
    allow(r, folder, READS);
  free(path);
}

/* Allows the files in plugins' parameters, for writing too, as for a database. */
static void allow_params(struct rules *r, const struct lls_policy *policy)
{
  const struct lls_param_table *table = &policy->module->params;
  for (size_t i = 0; i < table->n; i++) {
    const char *path;
    if (table->params[i].type != LLS_TYPE_PATH)
      continue;
    memcpy(&path, (const char *)policy->params + table->params[i].offset, sizeof path);
    if (path != NULL)
      allow_folder_of(r, path, ALL_BUT_EXECUTE);
  }
}

/* Copies the value of a key in a URL, without the percent encoding; "": it has none. */
static void value_in_url(const char *url, const char *key, char value[PATH_MAX])
{
  const char *at = strchr(url, '?');
  size_t n = 0, length = strlen(key);
  while (at != NULL && (strncmp(at + 1, key, length) != 0 || at[1 + length] != '='))
    at = strchr(at + 1, '&');
  at = at != NULL ? at + length + 2 : "";
  for (; *at != '\0' && *at != '&' && n < PATH_MAX - 1; n++) {
    const char digits[3] = {at[1], at[1] != '\0' ? at[2] : '\0'};
    bool encoded = *at == '%' && strspn(digits, "0123456789abcdefABCDEF") == 2;
    value[n] = encoded ? (char)strtol(digits, NULL, 16) : *at;
    at += encoded ? 3 : 1;
  }
  value[n] = '\0';
}

/* Allows what libpq reads at each connection: the files that the URL or the environment
 * names, else those in the home folder; and where the hosts' names are looked up. */
static void allow_database(struct rules *r, const char *url)
{
  static const char *const keys[] = {"passfile", "sslrootcert", "sslcert", "sslkey",
                                     "sslcrl"};
  static const char *const variables[] = {"PGPASSFILE", "PGSSLROOTCERT", "PGSSLCERT",
                                          "PGSSLKEY", "PGSSLCRL"};
  static const char *const in_home[] = {".pgpass", ".postgresql"};
  const char *home = getenv("HOME");
  char path[PATH_MAX];
  if (url[0] == '\0')
    return;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const char *given = getenv(variables[i]);
    value_in_url(url, keys[i], path);
    allow_folder_of(r, path, READS);
    allow_folder_of(r, given != NULL ? given : "", READS);
  }
  for (size_t i = 0; i < sizeof in_home / sizeof *in_home && home != NULL; i++)
    if (snprintf(path, sizeof path, "%s/%s", home, in_home[i]) < (int)sizeof path)
      allow(r, path, READS);
  allow_folder_of(r, "/etc/resolv.conf", READS);
}

static void allow_reads(struct rules *r, const struct lls_config *c)
{
  static const char *const system[] = {"/usr",  "/lib", "/lib64",      "/etc",
                                       "/proc", "/sys", "/run/systemd"};
  for (size_t i = 0; i < sizeof system / sizeof *system; i++)
    allow(r, system[i], READS);
  allow_model(r, c->model.path);
  if (c->plugins.draft_model[0] != '\0')
    allow_model(r, c->plugins.draft_model);
  for (size_t i = 0; i < c->lora.n; i++)
    allow_model(r, c->lora.adapters[i].path);
  allow_search_path(r);
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    allow_folder_of(r, c->policies.by_kind[i].module->path, READS);
  if (c->has_file)
    allow_folder_of(r, c->ini.path, READS);
  if (c->copy != NULL)
    allow_folder_of(r, c->copy, READS);
  allow_folder_of(r, c->model.chat_template, READS);
  allow_folder_of(r, c->server.api_keys, READS);
  allow_folder_of(r, c->server.admin_keys, READS);
  allow_folder_of(r, c->tls.certificate, READS);
  allow_folder_of(r, c->tls.key, READS);
  allow_folder_of(r, c->tls.client_ca, READS);
  allow(r, lls_installed(LLS_DATA_DIR).path, READS);
  allow_database(r, c->server.state_database);
}

/* Allows devices; with a GPU all of /dev, since its driver has devices of its own and
 * memory in /dev/shm. */
static void allow_devices(struct rules *r, bool gpu)
{
  static const char *const read[] = {"/dev/random", "/dev/urandom", "/dev/zero"};
  for (size_t i = 0; i < sizeof read / sizeof *read; i++)
    allow(r, read[i], READ_FILE);
  allow(r, "/dev/null", READ_FILE | WRITE_FILE | TRUNCATE);
  if (gpu)
    allow(r, "/dev", READS | WRITE_FILE | TRUNCATE | IOCTL_DEV);
}

/* Allows the file of an endpoint of ZeroMQ, if it has one. */
static void allow_endpoint(struct rules *r, const char *endpoint)
{
  static const char ipc[] = "ipc://";
  if (strncmp(endpoint, ipc, sizeof ipc - 1) == 0)
    allow_folder_of(r, endpoint + sizeof ipc - 1, MAKE_SOCK | REMOVE_FILE);
}

static void allow_sockets(struct rules *r, const struct lls_config *c)
{
  const char *list = c->server.listen;
  struct lls_listen_address address;
  while (lls_listen_next(&list, &address, NULL) > 0)
    allow_folder_of(r, address.path, MAKE_SOCK | REMOVE_FILE);
  allow_folder_of(r, c->server.admin_socket, MAKE_SOCK | REMOVE_FILE);
  allow_endpoint(r, c->server.kv_events);
  allow_endpoint(r, c->server.kv_events_replay);
}

static void allow_writes(struct rules *r, const struct lls_config *c)
{
  const char *given = getenv("STATE_DIRECTORY");
  char folder[PATH_MAX];
  allow_devices(r, c->engine.device != LLS_DEVICE_CPU);
  allow(r, "/proc/self/task", READS | WRITE_FILE); /* names of threads */
  allow(r, c->server.state, ALL_BUT_EXECUTE);
  if (access(c->server.state, F_OK) < 0) /* the folder will be created later */
    allow_folder_of(r, c->server.state, ALL_BUT_EXECUTE);
  allow(r, c->server.state_files, ALL_BUT_EXECUTE);
  if (access(c->server.state_files, F_OK) < 0)
    allow_folder_of(r, c->server.state_files, ALL_BUT_EXECUTE);
  allow_folder_of(r, c->server.decisions, ALL_BUT_EXECUTE);
  allow(r, c->cache.measurements, ALL_BUT_EXECUTE);
  allow_sockets(r, c);
  if (given != NULL && snprintf(folder, sizeof folder, "%.*s", (int)strcspn(given, ":"),
                                given) < (int)sizeof folder)
    allow(r, folder, ALL_BUT_EXECUTE);
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    allow_params(r, &c->policies.by_kind[i]);
}

/* This program and the dynamic linker, for trials of plugins. */
static void allow_program(struct rules *r)
{
  Dl_info linker;
  void *at = (void *)getauxval(AT_BASE); /* NOLINT: an address */
  allow(r, "/proc/self/exe", EXECUTE | READ_FILE);
  if (at != NULL && dladdr(at, &linker) != 0 && linker.dli_fname != NULL)
    allow(r, linker.dli_fname, EXECUTE | READ_FILE);
}

/* Allows the programs next to this one that answer /admin/whatif; they may store
 * measurements. */
static void allow_whatif(struct rules *r)
{
  static const char *const names[] = {"llmserve-whatif", "llmserve-sim",
                                      "llmserve-profile"};
  char own[PATH_MAX], path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
  own[n > 0 ? n : 0] = '\0';
  char *folder = dirname(own);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (snprintf(path, sizeof path, "%s/%s", folder, names[i]) < (int)sizeof path)
      allow(r, path, EXECUTE | READ_FILE);
  if (lls_file_kept_folder(path, sizeof path) == 0)
    allow(r, path, ALL_BUT_EXECUTE);
}

/* ---- the whole --------------------------------------------------------------------- */

static struct ruleset for_abi(long abi, bool connects)
{
  struct ruleset all = {.files = FIRST_ABI};
  all.files |= abi >= 2 ? REFER : 0;
  all.files |= abi >= 3 ? TRUNCATE : 0;
  all.files |= abi >= 5 ? IOCTL_DEV : 0;
  all.network = abi >= 4 && !connects ? CONNECT_TCP : 0;
  const char *manager = getenv("NOTIFY_SOCKET");
  bool abstract = manager != NULL && manager[0] == '@';
  all.scoped = abi >= 6 ? SCOPE_SIGNAL | (abstract ? 0 : SCOPE_ABSTRACT) : 0;
  return all;
}

static int restrict_to(const struct lls_config *c, struct rules *r)
{
  bool everything = c->server.sandbox != LLS_SANDBOX_ON;
  if (everything)
    allow(r, "/", READS);
  else
    allow_reads(r, c);
  allow_writes(r, c);
  allow_program(r);
  if (sandbox_runs_whatif(c))
    allow_whatif(r);
  if (r->rc == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    r->rc = -errno;
  if (r->rc == 0 && syscall(SYS_landlock_restrict_self, r->fd, 0) < 0)
    r->rc = -errno;
  return r->rc;
}

int sandbox_files(const struct lls_config *c, char *done, size_t size,
                  struct lls_error *err)
{
  long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION);
  if (abi < 1)
    return lls_fail(err, -ENOSYS, "this kernel has no Landlock (%s)", strerror(errno));
  struct ruleset all = for_abi(abi, c->server.state_database[0] != '\0');
  size_t known = abi >= 6   ? sizeof all
                 : abi >= 4 ? 2 * sizeof(uint64_t)
                            : sizeof(uint64_t);
  struct rules r = {.known = all.files,
                    .fd = (int)syscall(SYS_landlock_create_ruleset, &all, known, 0)};
  int rc = r.fd < 0 ? -errno : restrict_to(c, &r);
  if (r.fd >= 0)
    close(r.fd);
  if (rc < 0)
    return lls_fail(err, rc, "Landlock: %s", strerror(-rc));
  if (c->server.sandbox == LLS_SANDBOX_ON)
    snprintf(done, size, "Landlock %ld, %u places are read, %u written", abi, r.reads,
             r.writes);
  else
    snprintf(done, size, "Landlock %ld, %u places are written", abi, r.writes);
  return 0;
}

bool sandbox_runs_whatif(const struct lls_config *c)
{
  return c->server.history > 0 && c->server.sandbox != LLS_SANDBOX_ON;
}

bool sandbox_is_wanted(const struct lls_config *c, bool mpi, const char **why_not)
{
  bool gpu = c->engine.device != LLS_DEVICE_CPU && access("/dev/nvidiactl", F_OK) == 0;
  *why_not = NULL;
  if (c->server.sandbox == LLS_SANDBOX_OFF)
    *why_not = "[server] sandbox is off";
  else if (mpi)
    *why_not = "MPI and UCX have processes and files of their own";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || LLS_CLANG_SANITIZES
  else if (c->server.sandbox == LLS_SANDBOX_AUTO)
    *why_not = "a sanitizer is at work";
#endif
  else if (gpu && c->server.sandbox == LLS_SANDBOX_AUTO)
    *why_not = "a GPU's driver has files of its own: [server] sandbox = on would insist";
  return *why_not == NULL;
}
