/* expiry.c: the times a program states, and the pool's. */
#include "lib/lib.h"

enum expiry_kind { EXPIRE_NEVER, EXPIRE_AFTER, EXPIRE_AT };

struct forge_expiry forge_expire_never(void)
{
	return (struct forge_expiry){{EXPIRE_NEVER, 0}};
}

struct forge_expiry forge_expire_after_ms(uint64_t ms)
{
	return (struct forge_expiry){{EXPIRE_AFTER, ms}};
}

struct forge_expiry forge_expire_at_unix_ms(uint64_t unix_ms)
{
	return (struct forge_expiry){{EXPIRE_AT, unix_ms}};
}

int expiry_to_pool(const struct forge_session *s, struct forge_expiry expiry, uint64_t *expiry_ms)
{
	uint64_t ms = expiry.opaque[1];

	switch (expiry.opaque[0]) {
	case EXPIRE_NEVER:
		*expiry_ms = 0;
		return ms ? FORGE_E_INVAL : 0;
	case EXPIRE_AFTER:
		*expiry_ms = session_expiry_in(s->session, ms);
		return 0;
	case EXPIRE_AT:
		*expiry_ms = session_expiry_at(s->session, ms);
		return 0;
	default:
		return FORGE_E_INVAL;
	}
}

uint64_t expiry_ttl_ms(const struct forge_session *s, uint64_t expiry_ms)
{
	if (likely(expiry_ms == 0))
		return FORGE_TTL_NEVER;
	uint64_t now_ms = session_now_ms(s->session);

	return expiry_ms > now_ms ? expiry_ms - now_ms : 0;
}
