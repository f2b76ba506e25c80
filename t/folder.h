/* SPDX-License-Identifier: Apache-2.0 */
/* A temporary folder for tests that need files; removed with its contents. */
#ifndef LLS_T_FOLDER_H
#define LLS_T_FOLDER_H

#include "t/tap.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct folder {
  char path[64];
};

static inline void folder_make(struct folder *f)
{
  strcpy(f->path, "/tmp/llmserve-test-XXXXXX");
  assert_non_null(mkdtemp(f->path));
}

static inline void folder_write(const struct folder *f, const char *name,
                                const void *bytes, size_t n)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", f->path, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, n, file), n);
  assert_int_equal(fclose(file), 0);
}

static inline void folder_write_text(const struct folder *f, const char *name,
                                     const char *text)
{
  folder_write(f, name, text, strlen(text));
}

/* Writes a text to a path whose folders it creates. */
static inline void folder_put(const struct folder *f, const char *path, const char *text)
{
  char command[512];
  snprintf(command, sizeof command, "mkdir -p \"$(dirname %s/%s)\"", f->path, path);
  assert_int_equal(system(command), 0);
  folder_write_text(f, path, text);
}

/* Writes a safetensors file: length, header, and n bytes of data: 0, 1, 2, ... */
static inline void folder_write_tensors(const struct folder *f, const char *name,
                                        const char *header, size_t n)
{
  uint64_t length = strlen(header);
  unsigned char *bytes = malloc(sizeof length + length + n);
  assert_non_null(bytes);
  memcpy(bytes, &length, sizeof length);
  memcpy(bytes + sizeof length, header, length);
  for (size_t i = 0; i < n; i++)
    bytes[sizeof length + length + i] = (unsigned char)i;
  folder_write(f, name, bytes, sizeof length + length + n);
  free(bytes);
}

static inline void folder_remove(const struct folder *f)
{
  DIR *dir = opendir(f->path);
  assert_non_null(dir);
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
    if (entry->d_name[0] != '.')
      unlinkat(dirfd(dir), entry->d_name, 0);
  closedir(dir);
  rmdir(f->path);
}

/* For cmocka_unit_test_setup_teardown: *state is the test's folder. */
static inline int folder_setup(void **state)
{
  struct folder *folder = malloc(sizeof *folder);
  assert_non_null(folder);
  folder_make(folder);
  *state = folder;
  return 0;
}

static inline int folder_teardown(void **state)
{
  folder_remove(*state);
  free(*state);
  return 0;
}

#define IN_FOLDER(test)                                                                  \
  cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

#endif
