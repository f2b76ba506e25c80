/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile of the server's device: one that its owner named, else one that is kept in
 * the user's cache folder (lls_file_kept_folder), where NUMBER is of the machine's
 * name and of the configuration's text, so that whoever changes the file measures anew:
 *
 *   profile-NUMBER.ini          measured by llmserve-profile while the server was idle
 *   profile-NUMBER-learnt.ini   learnt from the steps that it ran, because it never was
 *   profile-NUMBER-unfit.ini    measured, and not of the device that serves: for a day
 *                               nothing is measured again
 *
 * A kept one is of the device for as long as the steps that the server runs say so: it
 * may have been measured while other processes had the cores.
 */
#ifndef LLS_WHATIF_PROFILE_H
#define LLS_WHATIF_PROFILE_H

#include <jansson.h>

#include "tools/whatif/running.h"

enum profile_origin { PROFILE_NAMED, PROFILE_MEASURED, PROFILE_LEARNT };

struct profile {
  char *path; /* or the name of one that ships */
  enum profile_origin origin;
  bool fresh;  /* made for this question */
  json_t *fit; /* beside the steps served, as llmserve-sim tells; NULL: unknown */
  bool fits;   /* or it is not known that it does not */
  struct lls_text said; /* what its owner should know of it, "": nothing */
};

/* Finds one, measures the device if it is idle, or learns it. profile_free in any case.
 */
int profile_find(const struct whatif_options *, const struct running *, struct profile *,
                 struct lls_error *err);
void profile_free(struct profile *);

/* Holds it against the steps that were served: `report` is llmserve-sim's. apart: how far
 * a token's time is from what was served after calibrate.h; NaN: not known. */
void profile_judge(struct profile *, const json_t *report, double apart);

/* It does not fit. 1: it was a kept one, is removed, and this is another; 0: it is to be
 * gone on with; negative: it is removed, and there is no other. */
int profile_replace(const struct running *, struct profile *, struct lls_error *err);

/* Two lines for people; nothing where there is nothing to say. */
void profile_print(const struct profile *);
/* {"file", "from", "fits", "steps", "times", "error", "said"} */
json_t *profile_json(const struct profile *);

#endif
