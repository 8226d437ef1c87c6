/* names.c: a list of names, each by itself. */
#include "tool/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "client/name.h"

int tool_names_open(const struct command *c, const char *list, struct tool_names *out)
{
	struct pool_name *parsed;
	unsigned n;
	char text[512];

	*out = (struct tool_names){0};
	if (name_parse_list(list, &parsed, &n, text, sizeof(text)))
		return tool_fail(c, "%s", text);
	free(parsed);
	out->name = calloc(n, sizeof(*out->name));
	for (; out->name && out->count < n; out->count++) {
		size_t bytes = name_first_bytes(list);

		out->name[out->count] = strndup(list, bytes);
		if (!out->name[out->count])
			break;
		list += bytes + 1;
	}
	if (out->count == n)
		return 0;
	tool_names_close(out);
	return tool_fail(c, "%s", status_sentence(FORGE_E_NO_MEMORY));
}

void tool_names_close(struct tool_names *names)
{
	for (unsigned i = 0; i < names->count; i++)
		free(names->name[i]);
	free(names->name);
	*names = (struct tool_names){0};
}

void tool_names_dump(json_t *list, const char *schema, const char *all_name, json_t *all)
{
	json_t *root = json_incref(json_array_get(list, 0));

	if (all) {
		json_decref(root);
		root = json_object();
		json_object_set_new(root, "schema", json_string(schema));
		json_object_set(root, "nodes", list);
		json_object_set_new(root, all_name, all);
	}
	if (root) {
		json_dumpf(root, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	json_decref(root);
}

int tool_own_name(const struct command *c, const char *name)
{
	const char *options = strrchr(name, '?');

	if (name[name_first_bytes(name)])
		return tool_fail(
		    c, "%s is a list, where the pool of one memory node is to be named", name);
	if (name_is_of_socket(name))
		return tool_fail(
		    c,
		    "%s: a pool is memory of this host here, shm:/name or the path of a file; "
		    "sockets are for those who reach it (forge node --listen)",
		    name);
	/* What cannot be a name at all is told below. */
	if (!options || !name_has_options(name))
		return 0;
	return tool_fail(
	    c,
	    "%s: options (%s) are for those who reach a pool; its own name has none, leave "
	    "it out",
	    name, options);
}

/* Options are no part of the name that its node has.  0, or it is none of this host's memory. */
static int own_name(const char *name, struct pool_name *out)
{
	char ignored[512];

	return name_parse(name, out, ignored, sizeof(ignored)) || out->kind != NAME_SHM;
}

void tool_absent(const char *name, char *text, size_t text_bytes)
{
	struct pool_name parsed;

	snprintf(text, text_bytes,
		 "there is no pool %s: check the name, or start 'forge node --pool %s --size SIZE'",
		 name, own_name(name, &parsed) ? name : parsed.where);
}

void tool_node_remedy(const char *name, char *text, size_t text_bytes)
{
	struct pool_name parsed;

	if (own_name(name, &parsed) == 0)
		snprintf(text, text_bytes, "start it again with 'forge node --pool %s'",
			 parsed.where);
	else
		snprintf(text, text_bytes,
			 "start 'forge node' with its pool and --listen again on its host");
}
