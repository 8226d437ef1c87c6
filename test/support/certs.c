/* certs.c: X.509 by OpenSSL. */
#include "support/certs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#define DAY_S 86400

static void save(struct cert *c, X509 *x, EVP_PKEY *key)
{
	FILE *f = fopen(c->certificate, "w");

	assert_non_null(f);
	assert_int_equal(PEM_write_X509(f, x), 1);
	fclose(f);
	f = fopen(c->key, "w");
	assert_non_null(f);
	assert_int_equal(fchmod(fileno(f), 0600), 0);
	assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(f);
}

static void extend(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX context;
	X509_EXTENSION *extension;

	X509V3_set_ctx(&context, issuer, x, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	assert_non_null(extension);
	assert_int_equal(X509_add_ext(x, extension, -1), 1);
	X509_EXTENSION_free(extension);
}

/* issuer NULL: itself. */
static void make(const char *directory, const char *name, const struct cert *issuer,
		 const char *alt, long from_s, long to_s, struct cert *out)
{
	static long serial;
	EVP_PKEY *key = EVP_EC_gen("P-256"), *signer = key;
	X509 *x = X509_new(), *by = x;

	snprintf(out->certificate, sizeof(out->certificate), "%s/%s.crt", directory, name);
	snprintf(out->key, sizeof(out->key), "%s/%s.key", directory, name);
	if (issuer) {
		FILE *f = fopen(issuer->certificate, "r");

		assert_non_null(f);
		by = PEM_read_X509(f, NULL, NULL, NULL);
		fclose(f);
		f = fopen(issuer->key, "r");
		assert_non_null(f);
		signer = PEM_read_PrivateKey(f, NULL, NULL, NULL);
		fclose(f);
	}
	assert_true(key && x && by && signer);
	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(x), from_s);
	X509_gmtime_adj(X509_getm_notAfter(x), to_s);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
				   (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(by));
	X509_set_pubkey(x, key);
	if (!issuer)
		extend(x, by, NID_basic_constraints, "critical,CA:TRUE");
	if (alt)
		extend(x, by, NID_subject_alt_name, alt);
	assert_true(X509_sign(x, signer, EVP_sha256()) > 0);
	save(out, x, key);
	if (issuer) {
		X509_free(by);
		EVP_PKEY_free(signer);
	}
	X509_free(x);
	EVP_PKEY_free(key);
}

void cert_authority(const char *directory, const char *name, struct cert *out)
{
	make(directory, name, NULL, NULL, -DAY_S, DAY_S, out);
}

void cert_issue(const char *directory, const char *name, const struct cert *authority,
		const char *alt, long from_s, long to_s, struct cert *out)
{
	make(directory, name, authority, alt, from_s, to_s, out);
}
