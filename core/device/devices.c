/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a device's module; see devices.h. */
#include "config.h"

#include "core/device/devices.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/plugin/loader.h"

struct module_kind {
  const char *name;   /* device_NAME.so */
  const char *driver; /* without this library the module is not opened */
  const char *driver_text;
};

static const struct module_kind cuda = {"cuda", "libcuda.so.1", "NVIDIA's driver"};

static int find_module(const char *name, char path[PATH_MAX], struct lls_error *err)
{
  char file[64];
  snprintf(file, sizeof file, "device_%s.so", name);
  int rc = lls_plugin_find_file(file, path);
  if (rc == 0)
    return 0;
  return lls_fail(err, rc,
                  "there is no %s: configure found no toolkit, or its package is not "
                  "installed (llmserve-cuda)",
                  file);
}

static int check_module(const struct lls_device_module *m, const char *path,
                        struct lls_error *err)
{
  if (m == NULL || m->size != sizeof *m || strcmp(m->version, PACKAGE_VERSION) != 0 ||
      m->ops_size != sizeof(struct lls_device_ops) ||
      m->options_size != sizeof(struct lls_device_options))
    return lls_fail(err, -EPROTO,
                    "%s is of another build: expected that of llmserve %s; install both "
                    "from one",
                    path, PACKAGE_VERSION);
  return 0;
}

/* The driver is searched first: the libraries of the module have 500 MB. */
static int open_module(const struct module_kind *kind,
                       const struct lls_device_module **out, struct lls_error *err)
{
  char path[PATH_MAX];
  int rc = find_module(kind->name, path, err);
  if (rc < 0)
    return rc;
  if (dlopen(kind->driver, RTLD_NOW | RTLD_LOCAL) == NULL)
    return lls_fail(err, -ENODEV, "%s is not there: %s", kind->driver_text, dlerror());
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == NULL)
    return lls_fail(err, -ELIBACC, "cannot open the module: %s", dlerror());
  *out = dlsym(handle, LLS_DEVICE_MODULE_SYMBOL);
  rc = check_module(*out, path, err);
  if (rc < 0)
    dlclose(handle);
  return rc;
}

static int create_from_module(const struct module_kind *kind,
                              const struct lls_device_options *options,
                              struct lls_device **out, struct lls_error *err)
{
  const struct lls_device_module *module;
  int rc = open_module(kind, &module, err);
  return rc < 0 ? rc : module->create(options, out, err);
}

int lls_device_create(enum lls_device_choice choice, const struct lls_devices *builtin,
                      const struct lls_device_options *options, struct lls_device **out,
                      struct lls_error *why_not, struct lls_error *err)
{
  if (choice == LLS_DEVICE_CPU)
    return builtin->cpu->create(options, out, err);
  if (choice == LLS_DEVICE_CUDA)
    return create_from_module(&cuda, options, out, err);
  if (create_from_module(&cuda, options, out, why_not) == 0)
    return 0;
  return builtin->cpu->create(options, out, err);
}
