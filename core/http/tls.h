/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS between the bytes of a socket and those of HTTP, by OpenSSL; it uses no sockets.
 *
 *   socket --> lls_tls_take --> requests      answers --> lls_tls_seal --> record -->
 * socket
 *
 * A struct lls_tls has the certificate and the settings for new connections, and may be
 * replaced at any time: a connection keeps what it began with. Without OpenSSL
 * lls_tls_create fails with a sentence, and no other function is called.
 */
#ifndef LLS_HTTP_TLS_H
#define LLS_HTTP_TLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"

struct lls_tls;
struct lls_tls_stream; /* one connection's */

struct lls_tls_options {
  const char *certificate; /* file in PEM: the server's own, then those above it */
  const char *key;         /* file in PEM; "": in the certificate's file */
  const char *client_ca;   /* file in PEM; "": clients need no certificate */
  bool only_1_3;           /* TLS 1.3; else 1.2 too */
};

/* Reads the files. On failure *blame is the option whose file is at fault. */
int lls_tls_create(const struct lls_tls_options *options, struct lls_tls **out,
                   const char **blame, struct lls_error *err);
/* Frees it; NULL is allowed. Connections go on. */
void lls_tls_destroy(struct lls_tls *tls);
/* Returns the days until the certificate expires; negative if it has. */
int lls_tls_days_left(const struct lls_tls *tls);

enum lls_tls_state {
  LLS_TLS_HANDSHAKE,
  LLS_TLS_OPEN,
  LLS_TLS_ENDED,  /* the client has ended its sending side */
  LLS_TLS_FAILED, /* lls_tls_why has the reason */
};

/* Returns 0 or -ENOMEM. */
int lls_tls_begin(const struct lls_tls *tls, struct lls_tls_stream **out);
/* Frees it; NULL is allowed. */
void lls_tls_end(struct lls_tls_stream *stream);
enum lls_tls_state lls_tls_state(const struct lls_tls_stream *stream);
const char *lls_tls_why(const struct lls_tls_stream *stream);

/* Most bytes that a read of `length` bytes can open to: with those of a record of which a
 * part came before. */
#define LLS_TLS_RECORD       16384
#define LLS_TLS_ROOM(LENGTH) ((LENGTH) + 2 * LLS_TLS_RECORD)

/* Takes bytes from the client, and writes what they open to. Returns the number of bytes
 * written, at most `room`; the state may have changed, and a record may be due. */
size_t lls_tls_take(struct lls_tls_stream *stream, const char *data, size_t length,
                    char *plain, size_t room);
/* Makes a record of up to LLS_TLS_RECORD bytes for the client. Returns 0 or -EPROTO. */
int lls_tls_seal(struct lls_tls_stream *stream, const char *data, size_t length);
/* Makes the record that ends the server's sending side. Returns false if it is made
 * already, or has no place because the handshake is not complete or has failed. */
bool lls_tls_finish(struct lls_tls_stream *stream);

/* Returns the records that are to be sent, valid until the next call; lls_tls_sent
 * discards them. */
size_t lls_tls_due(const struct lls_tls_stream *stream, char **data);
void lls_tls_sent(struct lls_tls_stream *stream);

#endif
