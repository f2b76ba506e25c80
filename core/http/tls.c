/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream has two memory BIOs: OpenSSL reads the socket's bytes from one, and writes
 * bytes for the socket to the other. Bytes are taken in slices of a record, so that
 * neither grows beyond two records.
 */
#include "config.h"

#include "core/http/tls.h"

#include <errno.h>

#ifdef LLS_OPENSSL
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct lls_tls {
  SSL_CTX *context;
};

struct lls_tls_stream {
  SSL *ssl;
  BIO *in, *out; /* freed with ssl */
  enum lls_tls_state state;
  bool finished; /* the last record is made */
  char why[120];
};

/* ---- files ----------------------------------------------------------------------- */

/* Returns OpenSSL's reason for a failure: the first of its queue, which is the cause. */
static const char *reason(void)
{
  const char *text = ERR_reason_error_string(ERR_peek_error());
  return text != NULL ? text : "OpenSSL gives no reason";
}

/* Answers for OpenSSL that there is no password; it would ask on the terminal. */
static int no_password(char *buffer, int size, int writing, void *context)
{
  (void)buffer, (void)size, (void)writing, (void)context;
  return -1;
}

static int check_readable(const char *path, struct lls_error *err)
{
  return access(path, R_OK) == 0
             ? 0
             : lls_fail(err, -errno, "%s: cannot open: %s", path, strerror(errno));
}

static int use_certificate(SSL_CTX *context, const char *path, struct lls_error *err)
{
  int rc = check_readable(path, err);
  if (rc == 0 && SSL_CTX_use_certificate_chain_file(context, path) != 1)
    rc = lls_fail(err, -EINVAL, "%s: expected a certificate in PEM: %s", path, reason());
  return rc;
}

static int use_key(SSL_CTX *context, const char *path, struct lls_error *err)
{
  int rc = check_readable(path, err);
  if (rc < 0)
    return rc;
  if (SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM) == 1)
    return 0;
  if (ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH)
    return lls_fail(err, -EINVAL, "%s: the key is another certificate's", path);
  return lls_fail(err, -EINVAL,
                  "%s: expected the certificate's private key in PEM, without a "
                  "password: %s",
                  path, reason());
}

/* Requires certificates that one of the file's authorities has signed. */
static int use_client_ca(SSL_CTX *context, const char *path, struct lls_error *err)
{
  int rc = check_readable(path, err);
  if (rc < 0)
    return rc;
  STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(path);
  if (names == NULL || SSL_CTX_load_verify_file(context, path) != 1) {
    sk_X509_NAME_pop_free(names, X509_NAME_free);
    return lls_fail(err, -EINVAL, "%s: expected certificates of authorities in PEM: %s",
                    path, reason());
  }
  SSL_CTX_set_client_CA_list(context, names);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
  return 0;
}

/* ---- settings -------------------------------------------------------------------- */

/* Chooses HTTP/1 of the protocols that a client offers (RFC 7301). */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *length,
                           const unsigned char *offered, unsigned n_offered,
                           void *context)
{
  static const unsigned char ours[] = "\x08http/1.1\x08http/1.0";
  (void)ssl, (void)context;
  int found = SSL_select_next_proto((unsigned char **)out, length, ours, sizeof ours - 1,
                                    offered, n_offered);
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static void set_up(SSL_CTX *context, bool only_1_3)
{
  static const unsigned char id[] = "llmserve";
  SSL_CTX_set_min_proto_version(context, only_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); /* tickets need none */
  SSL_CTX_set_session_id_context(context, id, sizeof id - 1);
  SSL_CTX_set_default_passwd_cb(context, no_password);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
}

static int read_files(SSL_CTX *context, const struct lls_tls_options *options,
                      const char **blame, struct lls_error *err)
{
  bool own_file = options->key[0] != '\0';
  *blame = "certificate";
  int rc = use_certificate(context, options->certificate, err);
  if (rc < 0)
    return rc;
  if (own_file)
    *blame = "key";
  rc = use_key(context, own_file ? options->key : options->certificate, err);
  if (rc < 0 || options->client_ca[0] == '\0')
    return rc;
  *blame = "client_ca";
  return use_client_ca(context, options->client_ca, err);
}

int lls_tls_create(const struct lls_tls_options *options, struct lls_tls **out,
                   const char **blame, struct lls_error *err)
{
  struct lls_tls *tls = calloc(1, sizeof *tls);
  *blame = "certificate";
  ERR_clear_error();
  if (tls != NULL)
    tls->context = SSL_CTX_new(TLS_server_method());
  if (tls == NULL || tls->context == NULL) {
    free(tls);
    return lls_fail(err, -ENOMEM, "out of memory");
  }
  set_up(tls->context, options->only_1_3);
  int rc = read_files(tls->context, options, blame, err);
  ERR_clear_error();
  if (rc < 0)
    lls_tls_destroy(tls);
  else
    *out = tls;
  return rc;
}

void lls_tls_destroy(struct lls_tls *tls)
{
  if (tls != NULL)
    SSL_CTX_free(tls->context);
  free(tls);
}

int lls_tls_days_left(const struct lls_tls *tls)
{
  const X509 *certificate = SSL_CTX_get0_certificate(tls->context);
  int days = 0, seconds = 0;
  if (ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(certificate)) != 1)
    return 0;
  return seconds < 0 && days == 0 ? -1 : days;
}

/* ---- streams ----------------------------------------------------------------------- */

int lls_tls_begin(const struct lls_tls *tls, struct lls_tls_stream **out)
{
  struct lls_tls_stream *stream = calloc(1, sizeof *stream);
  BIO *in = BIO_new(BIO_s_mem()), *to_send = BIO_new(BIO_s_mem());
  SSL *ssl = SSL_new(tls->context);
  if (stream == NULL || in == NULL || to_send == NULL || ssl == NULL) {
    SSL_free(ssl);
    BIO_free(to_send);
    BIO_free(in);
    free(stream);
    return -ENOMEM;
  }
  BIO_set_mem_eof_return(in, -1); /* an empty BIO means that bytes are to come */
  SSL_set_bio(ssl, in, to_send);
  SSL_set_accept_state(ssl);
  *stream = (struct lls_tls_stream){.ssl = ssl, .in = in, .out = to_send};
  *out = stream;
  return 0;
}

void lls_tls_end(struct lls_tls_stream *stream)
{
  if (stream != NULL)
    SSL_free(stream->ssl);
  free(stream);
}

enum lls_tls_state lls_tls_state(const struct lls_tls_stream *stream)
{
  return stream->state;
}

const char *lls_tls_why(const struct lls_tls_stream *stream)
{
  return stream->why;
}

/* Notes the state after a read that has opened no byte. */
static void note_state(struct lls_tls_stream *stream, int result)
{
  int error = SSL_get_error(stream->ssl, result);
  if (error == SSL_ERROR_ZERO_RETURN) {
    stream->state = LLS_TLS_ENDED;
  } else if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
    stream->state = LLS_TLS_FAILED;
    strncpy(stream->why, reason(), sizeof stream->why - 1);
  } else if (stream->state == LLS_TLS_HANDSHAKE && SSL_is_init_finished(stream->ssl)) {
    stream->state = LLS_TLS_OPEN;
  }
}

/* Opens all records that are complete. */
static size_t open_records(struct lls_tls_stream *stream, char *plain, size_t room)
{
  size_t got = 0, n = 0;
  while (got < room && stream->state < LLS_TLS_ENDED) {
    ERR_clear_error();
    int result = SSL_read_ex(stream->ssl, plain + got, room - got, &n);
    if (result != 1) {
      note_state(stream, result);
      break;
    }
    stream->state = LLS_TLS_OPEN;
    got += n;
  }
  ERR_clear_error();
  return got;
}

size_t lls_tls_take(struct lls_tls_stream *stream, const char *data, size_t length,
                    char *plain, size_t room)
{
  size_t got = 0;
  while (length > 0 && stream->state < LLS_TLS_ENDED) {
    size_t slice = length < LLS_TLS_RECORD ? length : LLS_TLS_RECORD, kept = 0;
    if (BIO_write_ex(stream->in, data, slice, &kept) != 1 || kept != slice) {
      stream->state = LLS_TLS_FAILED;
      strcpy(stream->why, "out of memory");
      break;
    }
    got += open_records(stream, plain + got, room - got);
    data += slice;
    length -= slice;
  }
  return got;
}

int lls_tls_seal(struct lls_tls_stream *stream, const char *data, size_t length)
{
  size_t taken = 0;
  ERR_clear_error();
  bool sealed = stream->state != LLS_TLS_FAILED && !stream->finished &&
                SSL_write_ex(stream->ssl, data, length, &taken) == 1 && taken == length;
  ERR_clear_error();
  return sealed ? 0 : -EPROTO;
}

bool lls_tls_finish(struct lls_tls_stream *stream)
{
  bool fits = stream->state == LLS_TLS_OPEN || stream->state == LLS_TLS_ENDED;
  if (stream->finished || !fits)
    return false;
  stream->finished = true;
  ERR_clear_error();
  SSL_shutdown(stream->ssl); /* 0: the client has not ended yet, and need not */
  ERR_clear_error();
  return true;
}

size_t lls_tls_due(const struct lls_tls_stream *stream, char **data)
{
  long length = BIO_get_mem_data(stream->out, data);
  return length > 0 ? (size_t)length : 0;
}

void lls_tls_sent(struct lls_tls_stream *stream)
{
  (void)BIO_reset(stream->out);
}

#else

int lls_tls_create(const struct lls_tls_options *options, struct lls_tls **out,
                   const char **blame, struct lls_error *err)
{
  (void)options, (void)out;
  *blame = "certificate";
  return lls_fail(
      err, -ENOTSUP,
      "llmserve was built without OpenSSL: install libssl-dev and rebuild it, "
      "or leave TLS to a proxy (etc/proxy)");
}

void lls_tls_destroy(struct lls_tls *tls)
{
  (void)tls;
}

int lls_tls_days_left(const struct lls_tls *tls)
{
  (void)tls;
  return 0;
}

int lls_tls_begin(const struct lls_tls *tls, struct lls_tls_stream **out)
{
  (void)tls, (void)out;
  return -ENOTSUP;
}

void lls_tls_end(struct lls_tls_stream *stream)
{
  (void)stream;
}

enum lls_tls_state lls_tls_state(const struct lls_tls_stream *stream)
{
  (void)stream;
  return LLS_TLS_FAILED;
}

const char *lls_tls_why(const struct lls_tls_stream *stream)
{
  (void)stream;
  return "";
}

size_t lls_tls_take(struct lls_tls_stream *stream, const char *data, size_t length,
                    char *plain, size_t room)
{
  (void)stream, (void)data, (void)length, (void)plain, (void)room;
  return 0;
}

int lls_tls_seal(struct lls_tls_stream *stream, const char *data, size_t length)
{
  (void)stream, (void)data, (void)length;
  return -ENOTSUP;
}

bool lls_tls_finish(struct lls_tls_stream *stream)
{
  (void)stream;
  return false;
}

size_t lls_tls_due(const struct lls_tls_stream *stream, char **data)
{
  (void)stream, (void)data;
  return 0;
}

void lls_tls_sent(struct lls_tls_stream *stream)
{
  (void)stream;
}

#endif
