/* rig.c: see rig.h. */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "policy/policy.h"
#include "quiet.h"

void expect_ok(int status, const char *what)
{
	if (status)
		fail_msg("%s: %s: %s", what, forge_status_name(status), forge_detail());
}

void lib_rig_open(struct lib_rig *r, unsigned chunks, const char *latency,
		  const struct forge_options *options)
{
	char name[128];

	*r = (struct lib_rig){0};
	made_pool_create(&(struct plan_wish){.chunk_count = chunks,
					     .group_objects = 8,
					     .object_bytes = 120,
					     .cn_max = 4,
					     .slot_words = policy_find("forge")->slot_words,
					     .policy = "forge"},
			 r->pool);
	snprintf(name, sizeof(name), latency ? "%s?latency=%s" : "%s", r->pool, latency);
	OK(forge_open(name, options, &r->client));
	OK(forge_session_open(r->client, &r->session));
}

struct forge_client *lib_rig_join(const struct lib_rig *r, const struct forge_options *options)
{
	struct forge_client *client = NULL;

	OK(forge_open(r->pool, options, &client));
	return client;
}

void lib_rig_close(struct lib_rig *r)
{
	char text[512];

	forge_session_close(r->session);
	OK(forge_close(r->client));
	if (quiet_check(r->pool, text, sizeof(text)))
		fail_msg("%s", text);
	made_pool_unlink(r->pool);
}

int put_text(struct forge_session *s, const char *key, const char *value)
{
	return forge_set(s, forge_text(key), &(struct forge_item){.value = forge_text(value)});
}

int value_is(const struct forge_value *v, const char *text)
{
	return v->data && v->bytes == strlen(text) && memcmp(v->data, text, v->bytes) == 0;
}

int says(struct forge_session *s, const char *key, const char *value)
{
	struct forge_value v;

	return forge_get(s, forge_text(key), &v) == 0 && value_is(&v, value);
}
