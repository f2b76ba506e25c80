/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the harnesses. Each has LLVMFuzzerTestOneInput and is built twice: with
 * libFuzzer (t/fuzz/run), and with replay.c as a test that runs its corpus.
 *
 * A harness asserts the conditions that must hold for any input; sanitizers find
 * further errors.
 */
#ifndef LLS_T_FUZZ_H
#define LLS_T_FUZZ_H

#undef NDEBUG
#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Fixes the hash seed of JSON tables, so that runs are reproducible. */
__attribute__((constructor)) static void fuzz_seed(void)
{
  json_object_seed(1);
}

/* Path of a file of the source tree; static storage. */
static inline const char *fuzz_source(const char *relative)
{
  static char path[4096];
  const char *root = getenv("LLS_SRCDIR");
  snprintf(path, sizeof path, "%s/%s", root != NULL ? root : ".", relative);
  return path;
}

/* The folder of this process, in memory if there is such a file system. */
static inline const char *fuzz_folder(void)
{
  static char folder[64];
  if (folder[0] != '\0')
    return folder;
  strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/lls-fuzz-XXXXXX"
                                               : "/tmp/lls-fuzz-XXXXXX");
  assert(mkdtemp(folder) != NULL);
  return folder;
}

/* Writes a file of that name in the folder; returns its path, in static storage. */
static inline const char *fuzz_file(const char *name, const void *data, size_t size)
{
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert(fd >= 0);
  while (size > 0) {
    ssize_t n = write(fd, data, size);
    assert(n > 0);
    data = (const char *)data + n;
    size -= (size_t)n;
  }
  close(fd);
  return path;
}

/* Removes the folder and the named file. */
static inline void fuzz_forget(const char *name)
{
  char path[128];
  snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
  unlink(path);
}

#endif
