/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads [server] listen: addresses with blanks or commas between. An address is
 *
 *   HOST:PORT, [v6]:PORT, :PORT    TCP; with TLS if [tls] names a certificate
 *   http://HOST:PORT               TCP without TLS in any case
 *   https://HOST:PORT              TCP with TLS, which needs a certificate
 *   unix:/PATH, unix:/PATH:MODE    a Unix socket; MODE, in octal digits, is the file's
 */
#ifndef LLS_BASE_LISTEN_ADDRESS_H
#define LLS_BASE_LISTEN_ADDRESS_H

#include <sys/un.h>

#include "core/base/address.h"
#include "core/base/error.h"

#define LLS_SOCKET_PATH_MAX sizeof(((struct sockaddr_un *)0)->sun_path)
#define LLS_SOCKET_MODE     0660 /* a Unix socket without MODE is for its user and group */

/* Addresses say when their clients speak TLS. */
enum lls_listen_tls {
  LLS_LISTEN_TLS_IF_SET,
  LLS_LISTEN_TLS_NEVER,
  LLS_LISTEN_TLS_ALWAYS
};

struct lls_listen_address {
  char host[LLS_HOST_MAX]; /* as of lls_address_split */
  char port[6];
  char path[LLS_SOCKET_PATH_MAX]; /* of a Unix socket; "": TCP */
  unsigned mode;                  /* permission bits of the socket's file */
  enum lls_listen_tls tls;
};

/* Reads the next address and moves *list to its end. Returns 1; 0 at the end of the list;
 * -EINVAL if the address is malformed. Names are not looked up. */
int lls_listen_next(const char **list, struct lls_listen_address *out,
                    struct lls_error *err);

/* True if clients of the address speak TLS, given whether there is a certificate. */
static inline bool lls_listen_uses_tls(const struct lls_listen_address *address,
                                       bool has_certificate)
{
  return has_certificate && address->path[0] == '\0' &&
         address->tls != LLS_LISTEN_TLS_NEVER;
}

#endif
