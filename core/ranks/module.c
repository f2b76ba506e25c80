/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the module that uses MPI, so that the daemon itself does not depend on it. */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/plugin/loader.h"
#include "core/ranks/ranks.h"

uint32_t lls_ranks_launched(void)
{
  /* Variables of Open MPI; of MPICH and others (also srun --mpi=pmi2). srun --mpi=pmix
   * has another one, below. */
  const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *text = getenv(names[i]);
    if (text != NULL)
      return (uint32_t)strtoul(text, NULL, 10);
  }
  const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
  bool pmix = getenv("PMIX_RANK") != NULL && tasks != NULL;
  return pmix ? (uint32_t)strtoul(tasks, NULL, 10) : 0;
}

static int open_module(const struct lls_ranks_module **out, struct lls_error *err)
{
  char path[PATH_MAX];
  if (lls_plugin_find_file("ranks_mpi.so", path) < 0)
    return lls_fail(err, -ENOENT,
                    "this build has no ranks_mpi.so: configure found no MPI (on Debian: "
                    "apt-get install libopenmpi-dev openmpi-bin)");
  /* MPI's own components search for its symbols in the global scope. */
  void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (handle == NULL)
    return lls_fail(err, -ELIBACC, "cannot open MPI: %s", dlerror());
  const struct lls_ranks_module *module = dlsym(handle, LLS_RANKS_MODULE_SYMBOL);
  if (module == NULL || module->size != sizeof *module ||
      strcmp(module->version, PACKAGE_VERSION) != 0)
    return lls_fail(err, -EPROTO,
                    "%s is of another build: expected that of llmserve %s; install both "
                    "from one",
                    path, PACKAGE_VERSION);
  *out = module;
  return 0;
}

int lls_ranks_mpi(int64_t timeout_ns, struct lls_ranks **out, struct lls_error *err)
{
  const struct lls_ranks_module *module = NULL;
  LLS_ON_MAIN_THREAD();
  int rc = open_module(&module, err);
  return rc < 0 ? rc : module->open(timeout_ns, out, err);
}

int lls_ranks_mpi_instance(uint32_t ranks, int64_t timeout_ns,
                           struct lls_ranks_instance *out, struct lls_error *err)
{
  const struct lls_ranks_module *module = NULL;
  LLS_ON_MAIN_THREAD();
  int rc = open_module(&module, err);
  return rc < 0 ? rc : module->open_instance(ranks, timeout_ns, out, err);
}

bool lls_ranks_is_first(void)
{
  const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (getenv(names[i]) != NULL)
      return strtoul(getenv(names[i]), NULL, 10) == 0;
  return true;
}

bool lls_ranks_mpi_decline(const char *why)
{
  const struct lls_ranks_module *module = NULL;
  bool first = false;
  LLS_ON_MAIN_THREAD();
  if (lls_ranks_launched() < 2 || open_module(&module, NULL) < 0)
    return false;
  return module->decline(why, &first) && !first;
}
