/*
 * calibrate.c: every profile is within 10 % of what is published about its kind, and a profile that
 * is not is found.
 */
#include "vtime/calibrate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

struct seen {
	unsigned rows, off;
	double worst;
	const char *worst_what;
};

static void look(void *context, const struct vt_calibration *c)
{
	struct seen *s = context;

	assert_true(c->low > 0 && c->high >= c->low && c->model > 0);
	assert_true(c->source[0] != '\0');
	s->rows++;
	s->off += c->off > VT_CALIBRATION_TOLERANCE;
	if (c->off >= s->worst) {
		s->worst = c->off;
		s->worst_what = c->what;
	}
}

static void test_published(void **state)
{
	const struct vt_profile *p;

	for (unsigned i = 0; (p = vt_profile_at(i)); i++) {
		struct seen seen = {0};

		assert_int_equal(vt_calibrate(p, look, &seen), 0);
		print_message("%s: %u rows, worst %.1f %%: %s\n", p->name, seen.rows,
			      100 * seen.worst, seen.worst_what);
		assert_true(seen.rows > 0);
		assert_int_equal(seen.off, 0);
		assert_true(seen.worst <= VT_CALIBRATION_TOLERANCE);
	}
}

/* Each constant of the card that is a fifth larger is noticed by some row. */
static void test_wrong_constants_are_found(void **state)
{
	static const struct {
		const char *name;
		size_t offset;
	} constants[] = {
	    {"round_trip", offsetof(struct vt_profile, round_trip)},
	    {"write", offsetof(struct vt_profile, write)},
	    {"read", offsetof(struct vt_profile, read)},
	    {"atomic", offsetof(struct vt_profile, atomic)},
	    {"host_atomic", offsetof(struct vt_profile, host_atomic)},
	    {"same_host", offsetof(struct vt_profile, same_host)},
	    {"same_device", offsetof(struct vt_profile, same_device)},
	    {"link_kib", offsetof(struct vt_profile, link_kib)},
	};

	for (unsigned i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
		struct vt_profile p = *vt_profile_find("cx5");
		struct seen seen = {0};
		uint64_t *field = (uint64_t *)(void *)((char *)&p + constants[i].offset);

		*field = *field * 6 / 5;
		if (vt_calibrate(&p, look, &seen) == 0)
			print_error("%s: nobody noticed\n", constants[i].name);
		assert_true(seen.off > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_published),
	    cmocka_unit_test(test_wrong_constants_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
