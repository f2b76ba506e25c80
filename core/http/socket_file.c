/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of Unix sockets. One that an ended server left is replaced. One of this
 * server is removed only if it has the inode that the server made, since a later server
 * may have put its own in the same place.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/http/connection.h"

/* Removes the socket file of an ended server. Returns 0 if the path is free then. */
static int clear_path(const char *path, struct lls_error *err)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct stat found;
  if (strlen(path) >= sizeof address.sun_path)
    return lls_fail(err, -ENAMETOOLONG, "%s: a socket's path has at most %zu bytes", path,
                    sizeof address.sun_path - 1);
  if (lstat(path, &found) != 0)
    return 0;
  if (!S_ISSOCK(found.st_mode))
    return lls_fail(err, -EEXIST, "%s: there is a file, which is no socket", path);
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool used = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
  if (fd >= 0)
    close(fd);
  if (used)
    return lls_fail(err, -EADDRINUSE, "%s: another server listens there", path);
  unlink(path);
  return 0;
}

/* Sets the mode before listen: clients can connect only after listen, so never with
 * another mode. */
static int bind_path(int fd, struct lls_http_listener *listener, const char *path,
                     unsigned mode)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct stat made;
  strcpy(address.sun_path, path);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
    return -errno;
  if (chmod(path, (mode_t)mode) < 0 || lstat(path, &made) < 0) {
    int error = -errno;
    unlink(path);
    return error;
  }
  strcpy(listener->path, path);
  listener->device = made.st_dev;
  listener->inode = made.st_ino;
  return 0;
}

int lls_http_socket_make(struct lls_http_listener *listener, const char *path,
                         unsigned mode, struct lls_error *err)
{
  LLS_HTTP_ON_MAIN(listener->server);
  int error = clear_path(path, err);
  if (error != 0)
    return error;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  error = fd < 0 ? -errno : bind_path(fd, listener, path, mode);
  if (error == 0)
    return fd;
  if (fd >= 0)
    close(fd);
  return lls_fail(err, error, "cannot listen on %s: %s", path, strerror(-error));
}

void lls_http_socket_remove(struct lls_http_listener *listener)
{
  struct stat found;
  LLS_HTTP_ON_MAIN(listener->server);
  if (listener->path[0] != '\0' && lstat(listener->path, &found) == 0 &&
      found.st_dev == listener->device && found.st_ino == listener->inode)
    unlink(listener->path);
  listener->path[0] = '\0';
}

void lls_http_listener_close(struct lls_http_listener *listener, uv_close_cb closed)
{
  LLS_HTTP_ON_MAIN(listener->server);
  if (!listener->open)
    return;
  listener->open = false;
  lls_http_socket_remove(listener);
  uv_close((uv_handle_t *)&listener->tcp, closed);
}
