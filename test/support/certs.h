/*
 * certs.h: certificates for tests: authorities, and whom they vouch for, as files.
 *
 * Called by cmocka tests on one thread: whatever fails, fails the test.  Files are made in a
 * directory of the caller's, and are the caller's to remove.
 */
#ifndef FORGE_TEST_SUPPORT_CERTS_H
#define FORGE_TEST_SUPPORT_CERTS_H

struct cert {
	char certificate[128], key[128]; /* paths, in PEM */
};

/* An authority of its own, valid for a day. */
void cert_authority(const char *directory, const char *name, struct cert *out);

/*
 * A certificate by that authority.  alt: as in OpenSSL's subjectAltName, "DNS:node,IP:127.0.0.1";
 * valid from that many seconds from now on to those.
 */
void cert_issue(const char *directory, const char *name, const struct cert *authority,
		const char *alt, long from_s, long to_s, struct cert *out);

#endif
