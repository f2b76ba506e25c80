/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the module that uses UCX, so that the daemon itself does not depend on it. */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/plugin/loader.h"
#include "core/ucx/ucx.h"

/* UCX would install handlers of signals, write to stdout, and not listen on the port of a
 * front end that has just ended. What the user has set counts. */
static void set_defaults(void)
{
  setenv("UCX_ERROR_SIGNALS", "", 0);
  setenv("UCX_HANDLE_ERRORS", "none", 0);
  setenv("UCX_TCP_CM_REUSEADDR", "y", 0);
  setenv("UCX_LOG_LEVEL", "fatal", 0);
}

int lls_ucx_open(const struct lls_ucx_options *o, struct lls_channel **out,
                 struct lls_error *err)
{
  char path[PATH_MAX];
  LLS_ON_MAIN_THREAD();
  if (lls_plugin_find_file("ucx.so", path) < 0)
    return lls_fail(err, -ENOENT,
                    "this build has no ucx.so: configure found no UCX (on Debian: "
                    "apt-get install libucx-dev)");
  set_defaults();
  void *handle = dlopen(path, RTLD_NOW | RTLD_NODELETE);
  if (handle == NULL)
    return lls_fail(err, -ELIBACC, "cannot open UCX: %s", dlerror());
  const struct lls_ucx_module *module = dlsym(handle, LLS_UCX_MODULE_SYMBOL);
  if (module == NULL || module->size != sizeof *module ||
      strcmp(module->version, PACKAGE_VERSION) != 0)
    return lls_fail(err, -EPROTO,
                    "%s is of another build: expected that of llmserve %s; install both "
                    "from one",
                    path, PACKAGE_VERSION);
  return module->open(o, out, err);
}
