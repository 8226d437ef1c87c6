/*
 * gc.c: `forge gc`: removes the shared memory of pools that nobody uses any more.
 *
 * The argument.  A pool is in use while its memory node or a compute node lives, and each of them
 * has its own byte of the file locked, which the kernel drops with the process and not before
 * (client/alive.h).  So who gets the lock of all these bytes in one call has the proof that
 * nobody is left, and while he has it nobody can come: it is kept until the name is gone.
 *
 * A whole pool that nobody serves may have been left on purpose (--keep), or by a node that was
 * killed; either way the next `forge node` serves it warm, and nothing in it tells the two apart.
 * So it is rubbish only if the user says so, by --warm-too, or if a server has made it for itself
 * (own_pool.h).  Without it only what no node of this build could serve is removed.  What does not
 * begin with the magic is none of ours, but that an empty one that the user names is what is left
 * of a pool whose maker was killed.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/opts.h"
#include "base/text.h"
#include "client/alive.h"
#include "fabric/shm.h"
#include "node/node.h"
#include "tool/command.h"
#include "tool/gc.h"
#include "tool/names.h"
#include "tool/own_pool.h"

/* Who has attached to the pool of a server that was killed: when to look again. */
#define LOOK_AGAIN_S 1

struct config {
	const char *pool;
	bool dry_run, warm_too;
	uint64_t after;
};

static const struct opt options[] = {
    OPT_STRING(struct config, pool, "pool", 'p', NULL, "NAME",
	       "Look only at this one: shm:/name, or the path of a file; none: at all in " //
	       SHM_DIRECTORY "."),
    OPT_FLAG(struct config, dry_run, "dry-run", 'n',
	     "Say what would be removed, and remove nothing."),
    OPT_FLAG(
	struct config, warm_too, "warm-too", 0,
	"Remove whole pools as well, which the next node could serve with all that is cached."),
    OPT_U64(struct config, after, "after", 0, "0", "PID", 0, INT32_MAX,
	    "Wait until this process has ended and those who had attached to --pool have left."),
};

static const struct opts_table table = {
    .command = "forge gc",
    .sentence = "Remove pools whose memory node and compute nodes are all proven to be gone and "
		"which no node can serve any more, or which a killed 'forge serve', 'bench' or "
		"'replay' had made for itself; with --warm-too also whole ones.  "
		"Prints a line for each pool that it finds.  Exit status: 0, or 2 for an error.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
};

static int run(int argc, char **argv);

const struct command command_gc = {"gc", "Remove pools that nobody uses any more.", run};

enum found { FOUND_NO_POOL, FOUND_UNREADABLE, FOUND_LEFT, FOUND_RUBBISH, FOUND_ERROR };

/*
 * Is it a pool, or was it one?  The reason if it cannot be told.  One whose maker was killed may be
 * empty, as may be what a stranger is about to fill: it must be named.  Under the name of a
 * server's own pool nobody else makes files, so there it is known also by zeroes, which is what it
 * has while its memory is faulted in, until it is formatted.
 */
static enum found look_at_head(const char *where, bool named, char *text, size_t text_bytes)
{
	uint64_t head[LAYOUT_SUPERBLOCK_BYTES / 8];
	size_t bytes = 0;

	if (shm_peek_most(where, head, sizeof(head), &bytes, text, text_bytes))
		return FOUND_UNREADABLE;
	if (bytes >= sizeof(head[0]) && head[0] == LAYOUT_MAGIC)
		return FOUND_RUBBISH;
	if (own_pool_is(where))
		return layout_is_of_a_pool(head, bytes) ? FOUND_RUBBISH : FOUND_NO_POOL;
	return named && bytes == 0 ? FOUND_RUBBISH : FOUND_NO_POOL;
}

static void say_who(const char *where, char *text, size_t text_bytes)
{
	char ignored[256];
	uint32_t attached = 0;

	for (uint32_t cn = 0; cn < LAYOUT_CN_MAX; cn++)
		attached += shm_is_held(where, alive_cn_byte(cn), ignored, sizeof(ignored)) == 1;
	snprintf(text, text_bytes, "%s, %u compute %s attached",
		 shm_is_held(where, ALIVE_NODE_BYTE, ignored, sizeof(ignored)) == 1
		     ? "a memory node serves it"
		     : "no memory node serves it",
		 attached, attached == 1 ? "node is" : "nodes are");
}

/* Of "NAME: what is wrong: what to do" what is wrong: the line has the name, and it is removed. */
static void leave_reason(const char *where, char *text)
{
	size_t name = strlen(where);
	char *remedy;

	if (strncmp(text, where, name) == 0 && strncmp(text + name, ": ", 2) == 0)
		memmove(text, text + name + 2, strlen(text + name + 2) + 1);
	remedy = strstr(text, ": ");
	if (remedy)
		*remedy = '\0';
}

/* All its owners are gone: this process has their locks. */
static enum found judge(const struct config *config, const char *where, char *text,
			size_t text_bytes)
{
	struct pool pool;

	if (node_inspect(where, &pool, text, text_bytes)) {
		leave_reason(where, text);
		return FOUND_RUBBISH;
	}
	if (config->warm_too || own_pool_is(where)) {
		snprintf(text, text_bytes, "nobody serves it and nobody is attached");
		return FOUND_RUBBISH;
	}
	snprintf(text, text_bytes,
		 "nobody serves it, but 'forge node --pool %s' could, warm; --warm-too removes it",
		 where);
	return FOUND_LEFT;
}

static enum found collect(const struct config *config, const char *where, char *text,
			  size_t text_bytes)
{
	struct shm_hold *hold;
	char error[512];
	bool named = config->pool != NULL;
	enum found found = look_at_head(where, named, text, text_bytes);
	int status;

	if (found != FOUND_RUBBISH)
		return found;
	status = shm_hold_open_all(where, ALIVE_BYTES, text, text_bytes, &hold);
	if (status == FORGE_E_AGAIN) {
		say_who(where, text, text_bytes);
		return FOUND_LEFT;
	}
	if (status)
		return FOUND_ERROR;
	/* What was seen before the lock may have been replaced by then. */
	found = look_at_head(where, named, text, text_bytes);
	if (found == FOUND_RUBBISH)
		found = judge(config, where, text, text_bytes);
	if (found == FOUND_RUBBISH && !config->dry_run &&
	    shm_hold_unlink(hold, error, sizeof(error))) {
		snprintf(text, text_bytes, "%s", error);
		found = FOUND_ERROR;
	}
	shm_hold_close(hold);
	return found;
}

bool gc_remove(const char *where, char *text, size_t text_bytes)
{
	const struct config config = {.pool = where, .warm_too = true};

	return collect(&config, where, text, text_bytes) == FOUND_RUBBISH;
}

/* The exit status of what has been said, or TOOL_OK. */
static int collect_and_say(const struct config *config, const char *where, bool named)
{
	char text[768];

	switch (collect(config, where, text, sizeof(text))) {
	case FOUND_RUBBISH:
		printf("%s %s: %s\n", config->dry_run ? "would remove" : "removed", where, text);
		return TOOL_OK;
	case FOUND_LEFT:
		printf("left %s: %s\n", where, text);
		return TOOL_OK;
	case FOUND_ERROR:
		return tool_fail(&command_gc, "%s", text);
	case FOUND_UNREADABLE:
		return named ? tool_fail(&command_gc, "%s", text) : TOOL_OK;
	case FOUND_NO_POOL:
		break;
	}
	return named ? tool_fail(&command_gc,
				 "%s is not a FORGE pool, and is left alone: check the name", where)
		     : TOOL_OK;
}

/* Names in order, so that two runs say the same. */
static int collect_all(const struct config *config)
{
	struct dirent **entries;
	int count = scandir(SHM_DIRECTORY, &entries, NULL, alphasort), worst = TOOL_OK;

	if (count < 0)
		return tool_fail(&command_gc, "cannot list %s: %s; name a pool with --pool",
				 SHM_DIRECTORY, strerror(errno));
	for (int i = 0; i < count; i++) {
		char where[8 + sizeof(entries[i]->d_name)];

		snprintf(where, sizeof(where), "shm:/%s", entries[i]->d_name);
		if (entries[i]->d_type == DT_REG && collect_and_say(config, where, false))
			worst = TOOL_ERROR;
		free(entries[i]);
	}
	free(entries);
	return worst;
}

/* Nobody serves it, and somebody uses it all the same: what is mapped stays with him. */
static bool has_users_only(const char *where)
{
	char ignored[256];
	bool is_used = false;

	for (uint32_t cn = 0; cn < LAYOUT_CN_MAX && !is_used; cn++)
		is_used = shm_is_held(where, alive_cn_byte(cn), ignored, sizeof(ignored)) == 1;
	return is_used && shm_is_held(where, ALIVE_NODE_BYTE, ignored, sizeof(ignored)) == 0;
}

/*
 * The kernel says that a process has ended after it has closed its files, and so let go of its
 * locks.
 */
static int wait_for_end(const struct config *config)
{
	struct pollfd end = {.fd = pidfd_open((pid_t)config->after, 0), .events = POLLIN};

	if (end.fd < 0 && errno != ESRCH)
		return tool_fail(&command_gc, "--after=%" PRIu64 ": cannot wait for it: %m",
				 config->after);
	while (end.fd >= 0 && poll(&end, 1, -1) < 0 && errno == EINTR)
		;
	if (end.fd >= 0)
		close(end.fd);
	while (has_users_only(config->pool))
		sleep(LOOK_AGAIN_S);
	return TOOL_OK;
}

static int run(int argc, char **argv)
{
	struct config config;
	struct opts_parsed parsed;
	int status = opts_parse_main(&table, argc, argv, &config, &parsed);

	if (status >= 0)
		return status;
	if (config.pool && tool_own_name(&command_gc, config.pool))
		return TOOL_ERROR;
	if (config.after && !config.pool)
		return tool_fail(&command_gc, "--after needs --pool");
	if (config.after && wait_for_end(&config))
		return TOOL_ERROR;
	return config.pool ? collect_and_say(&config, config.pool, true) : collect_all(&config);
}
