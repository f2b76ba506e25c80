/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile of the server's device: the one that the owner named, else one kept in the
 * user's cache folder (lls_file_kept_folder). NUMBER is a hash of the machine's name
 * and the configuration's text, so a changed file causes a new measurement:
 *
 *   profile-NUMBER.ini          measured by llmserve-profile while the server was idle
 *   profile-NUMBER-learnt.ini   learnt from its served steps, if it was never idle
 *   profile-NUMBER-unfit.ini    measured, but wrong for the serving device: prevents a
 *                               new measurement for a day
 *
 * A kept profile is used only as long as it agrees with the server's steps: it may have
 * been measured while other processes used the cores.
 */
#ifndef LLS_WHATIF_PROFILE_H
#define LLS_WHATIF_PROFILE_H

#include <jansson.h>

#include "tools/whatif/running.h"

enum profile_origin { PROFILE_NAMED, PROFILE_MEASURED, PROFILE_LEARNT };

struct profile {
  char *path; /* path, or the name of a shipped profile */
  enum profile_origin origin;
  bool fresh;  /* made for this question */
  json_t *fit; /* llmserve-sim's comparison with the served steps; NULL: unknown */
  bool fits;   /* also true if it is unknown whether the profile fits */
  struct lls_text said; /* messages to the owner; "": none */
};

/* Finds a profile, measures the device if it is idle, or learns the profile.
 * profile_free is to be called in any case. */
int profile_find(const struct whatif_options *, const struct running *, struct profile *,
                 struct lls_error *err);
void profile_free(struct profile *);

/* Compares the profile with the served steps: `report` is llmserve-sim's. apart: the
 * error of a token's time after calibration (calibrate.h); NaN: unknown. */
void profile_judge(struct profile *, const json_t *report, double apart);

/* Handles a profile that does not fit. Returns 1 if a kept profile was removed and
 * replaced by this one; 0 if it is to be used nevertheless; negative if it was removed
 * and there is no other. */
int profile_replace(const struct running *, struct profile *, struct lls_error *err);

/* Prints up to two lines for people. */
void profile_print(const struct profile *);
/* {"file", "from", "fits", "steps", "times", "error", "said"} */
json_t *profile_json(const struct profile *);

#endif
