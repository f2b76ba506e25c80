/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the harnesses. Each has LLVMFuzzerTestOneInput and is built twice: with
 * libFuzzer (t/fuzz/run), and with replay.c as a test that runs its corpus.
 *
 * A harness says what must hold for any input by assert, beside what sanitizers find.
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

/* JSON's tables are in the same order each time, or no run could be had again. */
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

/* A folder of this process, in memory where there is such a place. */
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

/* Writes the folder's file of that name; its path, in static storage. */
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

/* Takes the folder and the named file away. */
static inline void fuzz_forget(const char *name)
{
  char path[128];
  snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
  unlink(path);
}

#endif
