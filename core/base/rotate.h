/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are begun anew, of which those before are kept beside. */
#ifndef LLS_BASE_ROTATE_H
#define LLS_BASE_ROTATE_H

/* What is in `path` moves to path.1, that to path.2 and so on; path.`kept` is lost. What
 * is no regular file, empty or not there stays. 0 or -errno. */
int lls_rotate(const char *path, unsigned kept);

#endif
