/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a harness on every file of its corpus, as a TAP test: once whole, and once cut
 * short at a few places. The corpus of a program fuzz_NAME is the folder
 * t/fuzz/corpus/NAME. A release has no t/fuzz/corpus; the test is skipped there. */
#include "t/fuzz/fuzz.h"

#include <dirent.h>

static uint8_t *read_file(const char *path, size_t *size)
{
  FILE *file = fopen(path, "rb");
  assert(file != NULL);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  uint8_t *data = malloc(*size + 1);
  assert(data != NULL && fread(data, 1, *size, file) == *size);
  fclose(file);
  return data;
}

/* A copy of the exact size, so that a read past its end is seen. */
static void run(const uint8_t *data, size_t size)
{
  uint8_t *copy = malloc(size > 0 ? size : 1);
  assert(copy != NULL);
  memcpy(copy, data, size);
  LLVMFuzzerTestOneInput(copy, size);
  free(copy);
}

static void replay(const char *path)
{
  size_t size;
  uint8_t *data = read_file(path, &size);
  run(data, size);
  for (size_t part = 1; part < 8; part++)
    run(data, size * part / 8);
  free(data);
}

int main(int argc, char **argv)
{
  (void)argc;
  char folder[4200], path[4600];
  const char *name = strstr(argv[0], "fuzz_");
  int n = 0;
  assert(name != NULL);
  const char *corpus = fuzz_source("t/fuzz/corpus");
  if (access(corpus, F_OK) != 0) {
    printf("1..0 # SKIP %s is not there: a release is without it\n", corpus);
    return 0;
  }
  snprintf(folder, sizeof folder, "%s/%s", corpus, name + 5);
  DIR *files = opendir(folder);
  assert(files != NULL);
  for (struct dirent *entry; (entry = readdir(files)) != NULL;) {
    if (entry->d_name[0] == '.')
      continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    replay(path);
    printf("ok %d - %s\n", ++n, entry->d_name);
  }
  closedir(files);
  rmdir(fuzz_folder());
  printf("1..%d\n", n);
  return n == 0;
}
