/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the scheduling statistics of this process's threads; see cores.h. */
#include "tools/profile/cores.h"

#include <dirent.h>
#include <stdio.h>

#define MOST_LOST  0.05
#define MOST_NOISE 2

static void add_thread(const char *id, struct lls_core_time *out)
{
  char path[64];
  double ran, waited;
  snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", id);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return;
  if (fscanf(file, "%lf %lf", &ran, &waited) == 2) {
    out->ran += ran;
    out->waited += waited;
  }
  fclose(file);
}

void lls_core_time_read(struct lls_core_time *out)
{
  *out = (struct lls_core_time){0};
  DIR *threads = opendir("/proc/self/task");
  if (threads == NULL)
    return;
  for (const struct dirent *e; (e = readdir(threads)) != NULL;)
    if (e->d_name[0] != '.')
      add_thread(e->d_name, out);
  closedir(threads);
}

double lls_core_time_lost(const struct lls_core_time *from,
                          const struct lls_core_time *to)
{
  double ran = to->ran - from->ran, waited = to->waited - from->waited;
  return waited > 0 && ran >= 0 ? waited / (ran + waited) : 0;
}

bool lls_cores_disturbed(double lost, double noise)
{
  return lost > MOST_LOST || noise > MOST_NOISE;
}
