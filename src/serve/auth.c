/*
 * auth.c: reading the file, and comparing without telling how much was right.
 *
 * Whoever checks holds the list for reading, whoever has read the file anew exchanges it whole.
 */
#include "serve/auth.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/status.h"

#define AUTH_USERS_MAX 1000u

struct auth_user {
	char user[AUTH_WORD_BYTES_MAX + 1], password[AUTH_WORD_BYTES_MAX + 1];
};

struct auth_users {
	unsigned count;
	struct auth_user of[];
};

struct auth {
	pthread_rwlock_t lock;
	struct auth_users *users;
};

#define REFUSE(status, ...) (snprintf(error_text, error_bytes, __VA_ARGS__), (status))

/* One line without its end.  false: not user:password. */
static bool take_line(char *line, struct auth_user *out)
{
	char *colon = strchr(line, ':');

	if (!colon || colon == line || (size_t)(colon - line) > AUTH_WORD_BYTES_MAX ||
	    strlen(colon + 1) > AUTH_WORD_BYTES_MAX || !colon[1])
		return false;
	*colon = '\0';
	strcpy(out->user, line);
	strcpy(out->password, colon + 1);
	return true;
}

static int read_users(FILE *f, const char *path, struct auth_users *a, char *error_text,
		      size_t error_bytes)
{
	char line[2 * AUTH_WORD_BYTES_MAX + 4];

	for (unsigned number = 1; fgets(line, sizeof(line), f); number++) {
		size_t end = strcspn(line, "\r\n");

		if (end == 0)
			continue;
		line[end] = '\0';
		if (a->count == AUTH_USERS_MAX)
			return REFUSE(FORGE_E_FORMAT, "%s: more than %u users", path,
				      AUTH_USERS_MAX);
		if (!take_line(line, &a->of[a->count]))
			return REFUSE(FORGE_E_FORMAT,
				      "%s: line %u is not user:password, each of 1 to %u bytes",
				      path, number, AUTH_WORD_BYTES_MAX);
		a->count++;
	}
	explicit_bzero(line, sizeof(line));
	if (ferror(f))
		return REFUSE(FORGE_E_SYSTEM, "%s cannot be read: %m", path);
	if (a->count == 0)
		return REFUSE(FORGE_E_FORMAT,
			      "%s: no line is user:password, so nobody could log in", path);
	return 0;
}

static void users_free(struct auth_users *users)
{
	if (users)
		explicit_bzero(users->of, users->count * sizeof(users->of[0]));
	free(users);
}

static int open_users(const char *path, struct auth_users **out, char *error_text,
		      size_t error_bytes)
{
	struct auth_users *a = calloc(1, sizeof(*a) + AUTH_USERS_MAX * sizeof(a->of[0]));
	struct stat st;
	FILE *f = fopen(path, "re");
	int status;

	if (!a)
		status = REFUSE(FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
	else if (!f)
		status = REFUSE(FORGE_E_SYSTEM, "%s cannot be opened: %m", path);
	else
		status = read_users(f, path, a, error_text, error_bytes);
	if (!status && fstat(fileno(f), &st) == 0 && st.st_mode & S_IROTH)
		log_warn("%s can be read by everyone on this host: chmod o-r it", path);
	if (f)
		fclose(f);
	if (status)
		users_free(a);
	else
		*out = a;
	return status;
}

int auth_open(const char *path, struct auth **out, char *error_text, size_t error_bytes)
{
	struct auth *a = calloc(1, sizeof(*a));
	int status;

	if (!a)
		return REFUSE(FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
	pthread_rwlock_init(&a->lock, NULL);
	status = open_users(path, &a->users, error_text, error_bytes);
	if (status)
		auth_close(a);
	else
		*out = a;
	return status;
}

int auth_reopen(struct auth *a, const char *path, char *error_text, size_t error_bytes)
{
	struct auth_users *users, *old;
	int status = open_users(path, &users, error_text, error_bytes);

	if (status)
		return status;
	pthread_rwlock_wrlock(&a->lock);
	old = a->users;
	a->users = users;
	pthread_rwlock_unlock(&a->lock);
	users_free(old);
	return 0;
}

void auth_close(struct auth *a)
{
	if (!a)
		return;
	users_free(a->users);
	pthread_rwlock_destroy(&a->lock);
	free(a);
}

/* Looks at every byte, whatever it finds. */
static bool is_same(const char *known, const char *told, size_t told_bytes)
{
	size_t bytes = strlen(known);
	unsigned char differ = bytes != told_bytes;

	for (size_t i = 0; i < told_bytes; i++)
		differ |= (unsigned char)(told[i] ^ known[i < bytes ? i : 0]);
	return !differ;
}

bool auth_check(struct auth *a, const char *user, size_t user_bytes, const char *password,
		size_t password_bytes)
{
	bool found = false;

	if (user_bytes > AUTH_WORD_BYTES_MAX || password_bytes > AUTH_WORD_BYTES_MAX)
		return false;
	pthread_rwlock_rdlock(&a->lock);
	for (unsigned i = 0; i < a->users->count; i++)
		/* Not &&: the password is looked at even of others. */
		found |= is_same(a->users->of[i].user, user, user_bytes) &
			 is_same(a->users->of[i].password, password, password_bytes);
	pthread_rwlock_unlock(&a->lock);
	return found;
}

bool auth_check_text(struct auth *a, const char *proof, size_t bytes)
{
	const char *space = memchr(proof, ' ', bytes);

	return space && auth_check(a, proof, (size_t)(space - proof), space + 1,
				   bytes - (size_t)(space + 1 - proof));
}

bool auth_check_plain(struct auth *a, const char *proof, size_t bytes)
{
	const char *user = memchr(proof, '\0', bytes);

	if (!user)
		return false;
	user++;
	size_t left = bytes - (size_t)(user - proof);
	const char *end = memchr(user, '\0', left);

	return end &&
	       auth_check(a, user, (size_t)(end - user), end + 1, left - (size_t)(end + 1 - user));
}
