/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, maps, locks and rotates files that users name. Opening does not wait for a
 * FIFO's writer. */
#ifndef LLS_BASE_FILE_H
#define LLS_BASE_FILE_H

#include <stddef.h>
#include <stdio.h>

#include "core/base/error.h"

/* Opens a file for reading. Returns -EINVAL for a FIFO, a device, a folder, or a file of
 * more than `most` bytes (0: no limit). The caller closes it. */
int lls_file_open(const char *path, size_t most, FILE **out, struct lls_error *err);

/* Maps a whole file of at least one byte for reading. The caller unmaps it. */
int lls_file_map(const char *path, unsigned char **map, size_t *bytes,
                 struct lls_error *err);

/* Opens `path`, creating it if missing, and locks it for this process. Returns a
 * descriptor, whose close unlocks it; -EWOULDBLOCK if another process holds the lock; or
 * -errno. */
int lls_file_lock(const char *path);

/* Finds the folder for measurements that programs reuse in later runs: llmserve in
 * XDG_CACHE_HOME, else in a service's STATE_DIRECTORY, else in ~/.cache, else in /tmp.
 * Tries to create it. Returns 0 or -ENAMETOOLONG. */
int lls_file_kept_folder(char *path, size_t size);

/*
 * Moves `path` to path.1, path.1 to path.2 and so on, before a new file is begun; the old
 * path.`kept` is lost. Does nothing if `path` is missing, empty or not a regular file.
 * Returns 0 or -errno.
 */
int lls_file_rotate(const char *path, unsigned kept);

#endif
