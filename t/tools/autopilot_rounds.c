/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule of [server] autopilot as a filter, for t/tools/autopilot.t: each input line
 * BEST|- MARGIN MORE SERVED SIMULATED BEFORE is a round, and the output line is the
 * decision.
 */
#include <stdio.h>
#include <string.h>

#include "core/config/autopilot_rule.h"

int main(void)
{
  static const char *const acts[] = {"stay", "change", "back"};
  struct lls_autopilot a = {0};
  struct lls_autopilot_round r;
  char best[LLS_AUTOPILOT_NAME], line[1024];
  int more;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (sscanf(line, "%255s %lf %d %lf %lf %lf", best, &r.margin, &more, &r.served,
               &r.simulated, &r.before) != 6)
      return 2;
    r.best = strcmp(best, "-") != 0 ? best : NULL;
    r.more = more != 0;
    puts(acts[lls_autopilot_tell(&a, &r)]);
  }
  return 0;
}
