/*
 * A node's door and a client's pass: who is let in with what, before and after the files were read
 * again, and that files which are no good change nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "access/door.h"
#include "access/pass.h"
#include "base/status.h"
#include "support/certs.h"
#include "support/tempdir.h"

#define OLD   "00112233445566778899aabbccddeeff"
#define NEW   "ffeeddccbbaa99887766554433221100"
#define OTHER "0123456789abcdef0123456789abcdef"

static struct tempdir directory;
static char key_path[64];

static int make_directory(void **state)
{
	assert_int_equal(tempdir_make(&directory), 0);
	snprintf(key_path, sizeof(key_path), "%s/keys", directory.path);
	return 0;
}

static int remove_directory(void **state)
{
	return tempdir_remove(&directory);
}

static void write_keys(const char *text, mode_t mode)
{
	FILE *f = fopen(key_path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fchmod(fileno(f), mode), 0);
	fclose(f);
}

static struct door *open_door(void)
{
	const struct door_wish wish = {.key_file = key_path, .strangers_max = 16};
	char text[256];
	struct door *d;

	if (door_open(&wish, &d, text, sizeof(text)))
		fail_msg("%s", text);
	return d;
}

struct guest {
	char name[KEY_NAME_BYTES];
	uint8_t role;
	uint64_t mark;
};

/* One client with a key in a line, who wants a role. */
static int come_in(struct door *d, const char *line, uint8_t least, struct guest *guest)
{
	const struct pass_wish wish = {.key_line = line};
	uint8_t hello[PROOF_HELLO_BYTES] = {1}, nonce[PROOF_NONCE_BYTES];
	uint8_t welcome[PROOF_WELCOME_BYTES];
	struct proof_client client;
	struct proof_node node;
	struct proof_challenge challenge;
	struct proof_answer answer;
	struct proof_confirm confirm;
	struct pass *pass;
	char text[256];

	assert_int_equal(pass_open(&wish, &pass, text, sizeof(text)), 0);
	assert_int_equal(proof_nonce(nonce), 0);
	proof_client_begin(&client, hello, NULL);
	proof_node_begin(&node, hello, NULL, nonce, &challenge);
	assert_int_equal(proof_nonce(nonce), 0);
	assert_int_equal(proof_client_answer(&client, pass_key(pass), &challenge, sizeof(challenge),
					     nonce, &answer),
			 0);
	struct key key;
	int status = door_check(d, &node, &answer, sizeof(answer), &key, &guest->mark);

	/* What the server does when it knows who comes. */
	if (!status) {
		memcpy(guest->name, key.name, sizeof(key.name));
		guest->role = key.role;
		memset(welcome, 'w', sizeof(welcome));
		status = key.role <= least ? proof_node_confirm(&node, &key, welcome, &confirm)
					   : FORGE_E_DENIED;
	}
	if (!status)
		status =
		    proof_client_check(&client, pass_key(pass), &confirm, sizeof(confirm), welcome);
	pass_close(pass);
	return status;
}

static void a_key_lets_in_as_what_it_is_for(void **state)
{
	struct guest guest;

	write_keys("web full " OLD "\nreports read-only " OTHER "\n", 0600);
	struct door *d = open_door();

	assert_true(door_asks_keys(d) && door_knows_who_comes(d) && !door_has_tls(d));
	assert_int_equal(come_in(d, "web full " OLD, ACCESS_FULL, &guest), 0);
	assert_string_equal(guest.name, "web");
	assert_int_equal(guest.role, ACCESS_FULL);
	/* Less than it may is granted; more is not, whatever the client's own line says. */
	assert_int_equal(come_in(d, "web full " OLD, ACCESS_METRICS, &guest), 0);
	assert_int_equal(come_in(d, "reports full " OTHER, ACCESS_FULL, &guest), FORGE_E_DENIED);
	assert_int_equal(come_in(d, "reports full " OTHER, ACCESS_READ_ONLY, &guest), 0);
	assert_int_equal(guest.role, ACCESS_READ_ONLY);
	assert_int_equal(come_in(d, "web full " OTHER, ACCESS_METRICS, &guest), FORGE_E_DENIED);
	door_close(d);
}

static void keys_are_exchanged_while_clients_come(void **state)
{
	struct guest old_guest, guest;
	char text[256];

	write_keys("web full " OLD, 0600);
	struct door *d = open_door();

	assert_int_equal(come_in(d, "web full " OLD, ACCESS_FULL, &old_guest), 0);
	assert_true(door_still_knows(d, old_guest.mark));
	/* Both, while clients change over. */
	write_keys("web full " OLD "\nweb full " NEW, 0600);
	assert_int_equal(door_reload(d, text, sizeof(text)), 0);
	assert_int_equal(come_in(d, "web full " OLD, ACCESS_FULL, &guest), 0);
	assert_true(guest.mark == old_guest.mark);
	assert_int_equal(come_in(d, "web full " NEW, ACCESS_FULL, &guest), 0);
	assert_true(guest.mark != old_guest.mark);
	assert_true(door_still_knows(d, old_guest.mark));
	/* The old one goes, and with it who came in by it. */
	write_keys("web full " NEW, 0600);
	assert_int_equal(door_reload(d, text, sizeof(text)), 0);
	assert_int_equal(come_in(d, "web full " OLD, ACCESS_FULL, &old_guest), FORGE_E_DENIED);
	assert_false(door_still_knows(d, old_guest.mark));
	assert_true(door_still_knows(d, guest.mark));
	/* Another role is another key. */
	write_keys("web read-only " NEW, 0600);
	assert_int_equal(door_reload(d, text, sizeof(text)), 0);
	assert_false(door_still_knows(d, guest.mark));
	door_close(d);
}

static void a_file_that_is_no_good_changes_nothing(void **state)
{
	struct guest guest;
	char text[256];

	write_keys("web full " OLD, 0600);
	struct door *d = open_door();

	assert_int_equal(come_in(d, "web full " OLD, ACCESS_FULL, &guest), 0);
	write_keys("web full " NEW "\nnonsense", 0600);
	assert_int_equal(door_reload(d, text, sizeof(text)), FORGE_E_FORMAT);
	assert_non_null(strstr(text, key_path));
	write_keys("web full " NEW, 0644);
	assert_int_equal(door_reload(d, text, sizeof(text)), FORGE_E_DENIED);
	unlink(key_path);
	assert_int_equal(door_reload(d, text, sizeof(text)), FORGE_E_SYSTEM);
	assert_true(door_still_knows(d, guest.mark));
	assert_int_equal(come_in(d, "web full " OLD, ACCESS_FULL, &guest), 0);
	assert_int_equal(come_in(d, "web full " NEW, ACCESS_FULL, &guest), FORGE_E_DENIED);
	door_close(d);
}

static void wishes_that_contradict_themselves_are_refused(void **state)
{
	static const struct {
		struct pass_wish wish;
		const char *words;
	} bad[] = {
	    {{.files.authority = "ca"}, "tls://"},
	    {{.host = "node"}, "tls://"},
	    {{.key_name = "web"}, "key-file="},
	    {{.tls = true, .files.certificate = "cert"}, "cert-key="},
	    {{.key_line = "web full " OLD, .key_name = "other"}, "no key named other"},
	};
	struct pass *pass = NULL;
	struct door *door = NULL;
	char text[256];

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(pass_open(&bad[i].wish, &pass, text, sizeof(text)), FORGE_E_INVAL);
		assert_non_null(strstr(text, bad[i].words));
		assert_null(pass);
	}
	assert_int_equal(pass_open(&(struct pass_wish){0}, &pass, text, sizeof(text)), 0);
	assert_null(pass);
	assert_null(pass_key(pass));
	assert_false(pass_has_tls(pass));
	const struct door_wish halves[] = {
	    {.files.certificate = "c"}, {.files.key = "k"}, {.files.authority = "a"}};

	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(door_open(&halves[i], &door, text, sizeof(text)), FORGE_E_INVAL);
		assert_non_null(strstr(text, "--tls-cert"));
	}
}

/* A certificate without an authority encrypts, but knows nobody. */
static void certificates_alone_tell_who_comes_only_by_an_authority(void **state)
{
	struct cert authority, node;
	struct door *d;
	char text[256];

	cert_authority(directory.path, "authority", &authority);
	cert_issue(directory.path, "node", &authority, "DNS:node", -1000, 1000, &node);
	struct door_wish wish = {.files = {node.certificate, node.key, NULL}, .strangers_max = 1};

	assert_int_equal(door_open(&wish, &d, text, sizeof(text)), 0);
	assert_true(door_has_tls(d) && !door_knows_who_comes(d) && !door_asks_keys(d));
	assert_true(door_still_knows(d, 0));
	door_close(d);
	wish.files.authority = authority.certificate;
	assert_int_equal(door_open(&wish, &d, text, sizeof(text)), 0);
	assert_true(door_has_tls(d) && door_knows_who_comes(d));
	/* A new certificate must be good, too. */
	unlink(node.key);
	assert_int_equal(door_reload(d, text, sizeof(text)), FORGE_E_FORMAT);
	door_close(d);
	unlink(node.certificate);
	unlink(authority.certificate);
	unlink(authority.key);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_key_lets_in_as_what_it_is_for),
	    cmocka_unit_test(keys_are_exchanged_while_clients_come),
	    cmocka_unit_test(a_file_that_is_no_good_changes_nothing),
	    cmocka_unit_test(wishes_that_contradict_themselves_are_refused),
	    cmocka_unit_test(certificates_alone_tell_who_comes_only_by_an_authority),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
