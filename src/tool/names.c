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

void tool_node_remedy(const char *name, char *text, size_t text_bytes)
{
	struct pool_name parsed;
	char ignored[512];

	if (name_parse(name, &parsed, ignored, sizeof(ignored)) || parsed.kind == NAME_SHM)
		snprintf(text, text_bytes, "start it again with 'forge node --pool %.*s'",
			 (int)strcspn(name, "?"), name);
	else
		snprintf(text, text_bytes,
			 "start 'forge node' with its pool and --listen again on its host");
}
